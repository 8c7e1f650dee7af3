//! Owner tokens: secret, fresh for each attempt, from the operating system's generator.
//!
//! A generator in user space would be copied by fork, and parent and child would draw the same tokens.

/// The seam for chance: tokens and the jitter of pauses.
pub(crate) trait Rng: Send + Sync {
    /// Fills `bytes` from a source fit for secrets.
    fn fill(&self, bytes: &mut [u8]);

    /// A number from 0 up to, not including, 1.
    fn unit(&self) -> f64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The operating system's generator.
pub(crate) struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// `CLIENT.40 hex characters`: 20 random bytes behind the client instance, by which a script finds a waiter's channel.
pub(crate) fn fresh(rng: &dyn Rng, client: &uuid::Uuid) -> String {
    let mut bytes = [0; 20];
    rng.fill(&mut bytes);
    let mut token = String::with_capacity(73);
    token.push_str(client.simple().encode_lower(&mut [0; 32]));
    token.push('.');
    for b in bytes {
        for digit in [b >> 4, b & 15] {
            token.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let client = uuid::Uuid::new_v4();
        let a = fresh(&SystemRng, &client);
        assert_eq!(a.len(), 32 + 1 + 40);
        assert!(a.starts_with(&client.simple().to_string()));
        assert_ne!(a, fresh(&SystemRng, &client));
        assert!((0.0..1.0).contains(&SystemRng.unit()));
    }
}
