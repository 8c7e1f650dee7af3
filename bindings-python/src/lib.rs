//! The quorlock package.
