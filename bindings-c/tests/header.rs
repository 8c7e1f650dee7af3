//! include/quorlock.h is what cbindgen makes of the sources, with this version in it.
//!
//! `QUORLOCK_BLESS=1 cargo test -p quorlock-c` writes it anew.

use std::path::Path;

/// The sources with something for the header, in the order in which a reader wants it.
const SOURCES: [&str; 8] =
    ["error.rs", "options.rs", "client.rs", "lease.rs", "inspect.rs", "stats.rs", "log.rs", "version.rs"];

#[test]
fn header_is_up_to_date() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = package.join("../include/quorlock.h");
    let generated = generate(package);
    if std::env::var_os("QUORLOCK_BLESS").is_some() {
        std::fs::write(&header, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        committed == generated,
        "include/quorlock.h differs from the sources: QUORLOCK_BLESS=1 cargo test -p quorlock-c"
    );
}

fn generate(package: &Path) -> String {
    let mut config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    config.after_includes = config.after_includes.map(|macros| version_macros() + &macros);
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, file| builder.with_src(package.join("src").join(file)));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

fn version_macros() -> String {
    format!(
        "\n/** The version of this header. quorlock_version() gives that of the library. */\n\
         #define QUORLOCK_VERSION \"{}\"\n\
         #define QUORLOCK_VERSION_MAJOR {}\n\
         #define QUORLOCK_VERSION_MINOR {}\n\
         #define QUORLOCK_VERSION_PATCH {}\n\n",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    )
}
