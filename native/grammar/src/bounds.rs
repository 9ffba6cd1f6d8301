//! What is refused before anything is compiled, since compiling it would take minutes or gigabytes: the limits on steps (grammar.rs) are looked at between steps only.
use std::collections::HashMap;

use anyhow::{ensure, Result};
use serde_json::Value;

/// Of a schema, or of choices: they cost what their text costs.
pub const MOST_SCHEMA_BYTES: usize = 4 << 20;
/// Of a grammar in Lark's notation.
pub const MOST_LARK_BYTES: usize = 128 << 10;
/// Of a regular expression; of a terminal, with all that it is made of. One step may take as much as the square of it.
pub const MOST_REGEX_BYTES: usize = 4096;
/// Brackets within brackets, each of which is a step deeper on the stack.
const MOST_NESTING: usize = 200;
/// Remainders that a schema's `multipleOf` have to tell apart.
const MOST_REMAINDERS: u64 = 10_000;

pub fn check_bytes(text: &str, most: usize) -> Result<()> {
    ensure!(text.len() <= most, "found {} bytes of text, expected at most {most}", text.len());
    Ok(())
}

pub fn check_regex(regex: &str) -> Result<()> {
    ensure!(regex.len() <= MOST_REGEX_BYTES, "found a regular expression of {} bytes, expected at most {MOST_REGEX_BYTES}", regex.len());
    check_nesting(regex)
}

/// Counts opening brackets that are not closed, whether or not they stand in a character class or string: what has as many for real is refused, too.
fn check_nesting(text: &str) -> Result<()> {
    let (mut depth, mut escaped) = (0usize, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        ensure!(depth <= MOST_NESTING, "found brackets nested deeper than {MOST_NESTING}");
    }
    Ok(())
}

#[derive(Default)]
struct Multiples {
    /// Digits of each, and how many of them are after the point.
    found: Vec<(u64, u32)>,
    /// Whether schemas are combined, so that a number may have to be a multiple of several.
    combined: bool,
}

pub fn check_schema(schema: &Value) -> Result<()> {
    let mut multiples = Multiples::default();
    walk(schema, &mut multiples)?;
    let scale = multiples.found.iter().map(|&(_, decimals)| decimals).max().unwrap_or(0);
    let scaled: Vec<u64> = multiples.found.iter().map(|&(digits, decimals)| digits.saturating_mul(10u64.saturating_pow(scale - decimals))).collect();
    let most = |remainders: u64| -> Result<()> {
        ensure!(remainders <= MOST_REMAINDERS, "multipleOf: found {remainders} remainders to tell apart, expected at most {MOST_REMAINDERS}");
        Ok(())
    };
    most(multiples.found.iter().map(|&(digits, _)| digits).fold(0, u64::saturating_add))?;
    if multiples.combined && scaled.len() > 1 {
        most(scaled.iter().copied().fold(1, common_multiple))?;
    }
    Ok(())
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

fn walk(value: &Value, multiples: &mut Multiples) -> Result<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, multiples)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, field)| {
            match (name.as_str(), field) {
                ("pattern", Value::String(regex)) => check_regex(regex)?,
                ("patternProperties", Value::Object(patterns)) => patterns.keys().try_for_each(|regex| check_regex(regex))?,
                // One, or one divided by tens, adds none to another's.
                ("multipleOf", Value::Number(number)) => multiples.found.extend(Some(digits(&number.to_string())).filter(|&(digits, _)| digits != 1)),
                ("allOf" | "anyOf" | "oneOf" | "$ref", _) => multiples.combined = true,
                _ => {}
            }
            walk(field, multiples)
        }),
        _ => Ok(()),
    }
}

fn digits(number: &str) -> (u64, u32) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let behind = behind.trim_end_matches('0');
    let value = format!("{whole}{behind}").trim_start_matches('-').parse().unwrap_or(u64::MAX);
    let shift = exponent.parse::<i32>().unwrap_or(i32::MAX).saturating_sub(behind.len() as i32);
    if shift >= 0 {
        (value.saturating_mul(10u64.saturating_pow(shift as u32)), 0)
    } else {
        (value, shift.unsigned_abs())
    }
}

/// Terminals are expanded into one expression each: `A: B B`, `B: C C` and so on doubles at every line.
pub fn check_lark(text: &str) -> Result<()> {
    check_bytes(text, MOST_LARK_BYTES)?;
    check_nesting(text)?;
    let definitions = definitions(text)?;
    let mut sizes = HashMap::new();
    for name in definitions.keys() {
        let size = expanded(name, &definitions, &mut sizes, 0);
        ensure!(size <= MOST_REGEX_BYTES, "{name}: found a terminal of {size} bytes with all that it is made of, expected at most {MOST_REGEX_BYTES}");
    }
    Ok(())
}

#[derive(Default)]
struct Definition<'a> {
    bytes: usize,
    names: Vec<&'a str>,
}

fn expanded<'a>(name: &'a str, definitions: &HashMap<&'a str, Definition<'a>>, sizes: &mut HashMap<&'a str, usize>, depth: usize) -> usize {
    if let Some(&size) = sizes.get(name) {
        return size;
    }
    let Some(definition) = definitions.get(name) else { return 0 };
    if depth > MOST_NESTING {
        return usize::MAX;
    }
    // One that is made of itself is refused when it is compiled.
    sizes.insert(name, 0);
    let size = definition.names.iter().fold(definition.bytes, |sum, part| sum.saturating_add(expanded(part, definitions, sizes, depth + 1)));
    sizes.insert(name, size);
    size
}

/// What each terminal is made of: strings and expressions by their bytes, other terminals by name.
fn definitions(text: &str) -> Result<HashMap<&str, Definition<'_>>> {
    let mut found: HashMap<&str, Definition> = HashMap::new();
    let bytes = text.as_bytes();
    let (mut at, mut current, mut first): (usize, Option<&str>, Option<&str>) = (0, None, None);
    let mut line_begins = true;
    let is_terminal = |name: &str| name.trim_start_matches('_').starts_with(|letter: char| letter.is_uppercase());
    while at < bytes.len() {
        let begin = at;
        match bytes[at] {
            b'\n' => {
                if let Some(name) = first.take() {
                    refer(&mut found, current, name, is_terminal);
                }
                line_begins = true;
                at += 1;
                continue;
            }
            b'#' => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = end_of_line(bytes, at),
            quote @ (b'"' | b'/') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                if quote == b'/' {
                    check_regex(text.get(begin..at).unwrap_or(""))?;
                }
                if let Some(name) = current {
                    found.entry(name).or_default().bytes += at - begin;
                }
            }
            b'%' => {
                let word = text[at + 1..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').map_or(text.len(), |length| at + 1 + length);
                let kind = &text[at + 1..word];
                at = word;
                if kind == "json" {
                    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
                    if let Some(Ok(schema)) = values.next() {
                        check_schema(&schema)?;
                        at += values.byte_offset();
                    }
                }
            }
            b':' => {
                if let Some(name) = first.take() {
                    current = is_terminal(name).then_some(name);
                    if let Some(name) = current {
                        found.entry(name).or_default();
                    }
                }
                at += 1;
            }
            letter if letter.is_ascii_alphabetic() || letter == b'_' => {
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                    at += 1;
                }
                let name = &text[begin..at];
                if line_begins {
                    first = Some(name);
                } else {
                    refer(&mut found, current, name, is_terminal);
                }
            }
            _ => {
                // What a quantifier or bracket adds.
                if let Some(name) = current.filter(|_| !bytes[at].is_ascii_whitespace()) {
                    found.entry(name).or_default().bytes += 1;
                }
                at += 1;
            }
        }
        line_begins = line_begins && bytes[begin].is_ascii_whitespace();
    }
    if let Some(name) = first {
        refer(&mut found, current, name, is_terminal);
    }
    Ok(found)
}

fn refer<'a>(found: &mut HashMap<&'a str, Definition<'a>>, within: Option<&'a str>, name: &'a str, is_terminal: impl Fn(&str) -> bool) {
    if let Some(terminal) = within.filter(|_| is_terminal(name)) {
        found.entry(terminal).or_default().names.push(name);
    }
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| from + length)
}
