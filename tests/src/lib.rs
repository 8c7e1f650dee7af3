//! Real servers and faulty links for tests.
