//! The protocol's Lua scripts, and one call of one of them.

use std::sync::LazyLock;

/// A script by its file in `scripts/`.
pub(crate) struct Script {
    pub text: String,
    pub sha: String,
}

impl Script {
    /// A line `-- include FILE` stands for that file.
    fn new(text: &str) -> Script {
        let text = text
            .replace("-- include fence.lua\n", include_str!("scripts/fence.lua"))
            .replace("-- include queue.lua\n", include_str!("scripts/queue.lua"));
        Script { sha: redis::Script::new(&text).get_hash().to_owned(), text }
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("scripts/", $file))));)*
    };
}

scripts! {
    TRY = "try.lua";
    CLAIM = "claim.lua";
    YIELD = "yield.lua";
    RAISE = "raise.lua";
    EXTEND = "extend.lua";
    REPAIR = "repair.lua";
    CHECK = "check.lua";
    RELEASE = "release.lua";
    INSPECT = "inspect.lua";
    WHO = "who.lua";
    BREAK = "break.lua";
    OUTDATE = "outdate.lua";
}

/// One call of a script: what travels to a server.
pub(crate) struct Call {
    pub script: &'static Script,
    pub keys: Vec<String>,
    pub args: Vec<String>,
}

impl Call {
    pub(crate) fn new(
        script: &'static LazyLock<Script>,
        keys: impl IntoIterator<Item = impl Into<String>>,
        args: impl IntoIterator<Item = String>,
    ) -> Call {
        Call { script, keys: keys.into_iter().map(Into::into).collect(), args: args.into_iter().collect() }
    }

    /// The command that names the script by its hash.
    pub(crate) fn evalsha(&self) -> redis::Cmd {
        self.command("EVALSHA", &self.script.sha)
    }

    /// The command with the script's full text, for a server that does not have it.
    pub(crate) fn eval(&self) -> redis::Cmd {
        self.command("EVAL", &self.script.text)
    }

    fn command(&self, verb: &str, script: &str) -> redis::Cmd {
        let parts = 3 + self.keys.len() + self.args.len();
        let bytes: usize = self.keys.iter().chain(&self.args).map(String::len).sum();
        let mut cmd = redis::Cmd::with_capacity(parts, verb.len() + script.len() + 4 + bytes);
        cmd.arg(verb);
        cmd.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        cmd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_names_its_keys_and_arguments_first() {
        for s in [&TRY, &CLAIM, &YIELD, &RAISE, &EXTEND, &REPAIR, &CHECK, &RELEASE, &INSPECT, &WHO, &BREAK, &OUTDATE] {
            assert!(s.text.starts_with("-- KEYS "), "{}", s.text);
            assert!(!s.text.contains("#!lua") && !s.text.contains("-- include"));
            assert_eq!(s.sha.len(), 40);
        }
    }
}
