//! Texts of grammars, compiled.
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use llguidance::api::{GrammarInit, GrammarWithLexer, TopLevelGrammar};
use llguidance::{JsonCompileOptions, Logger, Matcher};
use serde_json::{json, Value};

use crate::bounds::{check_bytes, check_lark, check_regex, check_schema, MOST_SCHEMA_BYTES};
use crate::limits::limits;
use crate::matcher::RowMatcher;
use crate::vocabulary::Vocabulary;

/// Compiling descends into what is nested; 64 MiB are enough for all that the other limits let through.
const COMPILE_STACK_BYTES: usize = 64 << 20;

#[derive(Clone, Copy)]
pub enum Kind {
    JsonSchema,
    Regex,
    Lark,
    /// A JSON array of strings.
    Choices,
    /// JSON: `{lark, schemas}`, a grammar that refers to the schemas as `@s0`, `@s1` and so on.
    Composed,
}

/// A grammar before its first token: each row clones it, so that what one row's masks have cost is nothing to another's.
pub struct Grammar {
    pub vocabulary: Arc<Vocabulary>,
    fresh: Mutex<Matcher>,
    /// Whether rows can look for text that must follow.
    pub forces: bool,
}

impl Grammar {
    pub fn new(vocabulary: Arc<Vocabulary>, kind: Kind, text: &str) -> Result<Self> {
        thread::scope(|scope| {
            let compiling = thread::Builder::new().stack_size(COMPILE_STACK_BYTES).spawn_scoped(scope, || {
                llguidance::panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| compile(&vocabulary, kind, text)))
            })?;
            let (matcher, forces) = compiling.join().map_err(|_| anyhow::anyhow!("the thread that compiled it has panicked"))??;
            Ok(Grammar { vocabulary: vocabulary.clone(), fresh: Mutex::new(matcher), forces })
        })
    }

    pub fn matcher(&self) -> Result<Matcher> {
        Ok(self.fresh.lock().map_err(|_| anyhow::anyhow!("another thread has panicked"))?.deep_clone())
    }
}

/// @returns the matcher before its first token, and whether it can be looked ahead in
fn compile(vocabulary: &Arc<Vocabulary>, kind: Kind, text: &str) -> Result<(Matcher, bool)> {
    let grammars = match kind {
        Kind::JsonSchema => vec![GrammarWithLexer::from_json_schema(schema(text)?)],
        Kind::Regex => {
            check_regex(text)?;
            vec![GrammarWithLexer::from_regex(text)]
        }
        Kind::Lark => {
            check_lark(text)?;
            vec![GrammarWithLexer::from_lark(text.to_string())]
        }
        Kind::Choices => vec![GrammarWithLexer::from_lark(choices(text)?)],
        Kind::Composed => composed(text)?,
    };
    let factory = &vocabulary.factory;
    let init = GrammarInit::Serialized(TopLevelGrammar { grammars, max_tokens: None });
    let parser = factory.create_parser_from_init_ext(init, Logger::new(0, 0), Default::default(), limits())?;
    let fresh = Matcher::new(Ok(parser));
    // What no answer fulfils is found now, where the tokenizer has no token to begin with; what is found here is known to all rows.
    let mut first = RowMatcher::new(vocabulary.clone(), fresh, false);
    first.mask().context("no answer of the model's tokens begins so")?;
    let forces = first.can_go_back();
    Ok((first.into_matcher(), forces))
}

/// A schema whose values are written as JSON.stringify does: no spaces, properties in the schema's order.
fn schema(text: &str) -> Result<Value> {
    check_bytes(text, MOST_SCHEMA_BYTES)?;
    checked_schema(serde_json::from_str(text).context("it is no JSON")?)
}

fn composed(text: &str) -> Result<Vec<GrammarWithLexer>> {
    check_bytes(text, MOST_SCHEMA_BYTES)?;
    let value: Value = serde_json::from_str(text).context("it is no JSON")?;
    let (Some(lark), Some(schemas)) = (value["lark"].as_str(), value["schemas"].as_array()) else { bail!("expected {{lark, schemas}}") };
    check_lark(lark)?;
    let mut grammars = vec![GrammarWithLexer::from_lark(lark.to_string())];
    for (at, schema) in schemas.iter().enumerate() {
        grammars.push(GrammarWithLexer { name: Some(format!("s{at}")), ..GrammarWithLexer::from_json_schema(checked_schema(schema.clone())?) });
    }
    Ok(grammars)
}

fn checked_schema(mut value: Value) -> Result<Value> {
    check_schema(&value)?;
    match &mut value {
        Value::Bool(true) => value = json!({}),
        Value::Bool(false) => bail!("Unsatisfiable schema: false accepts no value"),
        // How strings are escaped depends on the schema (src/schema/lowered.ts): what is made there says it. Nobody else's schema comes here.
        Value::Object(fields) if fields.contains_key("x-guidance") => return Ok(value),
        Value::Object(_) => {}
        _ => bail!("a schema is an object or a boolean"),
    }
    let options = JsonCompileOptions { whitespace_flexible: false, ..Default::default() };
    options.apply_to(&mut value);
    Ok(value)
}

fn choices(text: &str) -> Result<String> {
    check_bytes(text, MOST_SCHEMA_BYTES)?;
    let choices: Vec<String> = serde_json::from_str(text).context("choices are a JSON array of strings")?;
    ensure!(!choices.is_empty(), "found no choices, expected at least one");
    let quoted: Vec<String> = choices.iter().map(|choice| Value::from(choice.as_str()).to_string()).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", quoted.join(" | ")))
}
