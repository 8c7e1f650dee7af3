//! How a line becomes words, in testbed commands and in conformance scenarios.

/// Splits a testbed command (tests/README.md): `"…"` keeps spaces, with `\"`, `\\`, `\n`, `\r`, `\t` and `\xHH` inside.
pub fn split_escaped(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            b'\\' if quoted => word.get_or_insert_default().push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'a') => 7,
                Some(b'b') => 8,
                Some(b'x') => {
                    let digits = [bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default()];
                    let digits = std::str::from_utf8(&digits).unwrap_or_default();
                    u8::from_str_radix(digits, 16).map_err(|_| format!("\\x{digits} is not a byte"))?
                }
                Some(other) => other,
                None => return Err("a backslash at the end".to_owned()),
            }),
            b' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Splits a line of a scenario (tests/conformance/README.md): `"…"` keeps spaces, with `\"` and `\\` inside, and may be
/// repeated by `*N`.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                let mut text = String::new();
                loop {
                    match chars.next().ok_or("a quote is not closed")? {
                        '"' => break,
                        '\\' => text.extend(chars.next()),
                        other => text.push(other),
                    }
                }
                let mut times = 1;
                if chars.next_if_eq(&'*').is_some() {
                    let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
                    times = digits.parse().map_err(|_| "no number after *")?;
                }
                word.get_or_insert_default().push_str(&text.repeat(times));
            }
            ' ' => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_testbed_command_is_split_into_bytes() {
        let words = split_escaped(r#"cmd 0  SET "a b" "" "\"\\\n\xff" x\y lock:{ü}"#).unwrap();
        let expected: [&[u8]; 8] = [b"cmd", b"0", b"SET", b"a b", b"", b"\"\\\n\xff", b"x\\y", "lock:{ü}".as_bytes()];
        assert_eq!(words, expected);
        assert!(split_escaped("\"open").is_err() && split_escaped(r#""\xzz""#).is_err());
    }

    #[test]
    fn a_scenario_line_is_split_into_words() {
        assert_eq!(
            split(r#"a try "x y"  text="held \"by\"" "ab"*3 """#).unwrap(),
            ["a", "try", "x y", "text=held \"by\"", "ababab", ""]
        );
        assert!(split("\"open").is_err() && split("\"x\"*").is_err());
    }
}
