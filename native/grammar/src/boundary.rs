//! The C functions: pointers in, codes out.
use std::ffi::c_char;
use std::panic::AssertUnwindSafe;
use std::slice;
use std::sync::Arc;

use anyhow::{bail, ensure, Result};
use llguidance::panic_utils;

use crate::grammar::{Grammar, Kind};
use crate::matcher::RowMatcher;
use crate::vocabulary::Vocabulary;

const ACCEPTING: i32 = 1;
const ENDED: i32 = 2;
const FAILED: i32 = -1;

#[repr(C)]
pub struct SpillwayText {
    bytes: *const u8,
    length: usize,
}

#[repr(C)]
pub struct SpillwayTokens {
    token_bytes: *const u8,
    token_lengths: *const u32,
    tokens: u32,
    first_tokens: *const u32,
    first_bytes: *const u8,
    first_lengths: *const u32,
    firsts: u32,
    ends: *const u32,
    end_count: u32,
}

/// Where the caller has room for tokens that must come next.
#[repr(C)]
pub struct SpillwayForced {
    tokens: *mut u32,
    room: usize,
    count: usize,
}

/// Where the caller has room for a message.
#[repr(C)]
pub struct SpillwayMessage {
    text: *mut c_char,
    room: usize,
}

impl SpillwayMessage {
    unsafe fn write(&self, error: &anyhow::Error) {
        if self.room == 0 {
            return;
        }
        let full = format!("{error:#}");
        // Backtraces, and what stands for a state that is not shown, are for nobody here.
        let text = full.split("\n<").next().unwrap_or(&full).replace('\0', "\\0");
        let mut end = text.len().min(self.room - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        slice::from_raw_parts_mut(self.text.cast::<u8>(), end).copy_from_slice(&text.as_bytes()[..end]);
        *self.text.add(end) = 0;
    }
}

unsafe fn items<'a, T>(from: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        slice::from_raw_parts(from, count)
    }
}

unsafe fn cut<'a>(bytes: *const u8, lengths: &[u32]) -> Vec<&'a [u8]> {
    let all = items(bytes, lengths.iter().map(|&length| length as usize).sum());
    let mut at = 0;
    lengths.iter().map(|&length| { at += length as usize; &all[at - length as usize..at] }).collect()
}

fn guarded<T>(message: &SpillwayMessage, work: impl FnOnce() -> Result<T>) -> Option<T> {
    match panic_utils::catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(error) => {
            unsafe { message.write(&error) };
            None
        }
    }
}

fn boxed<T>(value: Option<T>) -> *mut T {
    value.map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // A destructor that panics leaks the rest, which is better than to end the process.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(pointer))));
    }
}

/// # Safety
/// As `grammar.h` has it: pointers are valid for their counts.
#[no_mangle]
pub unsafe extern "C" fn spillway_vocabulary(tokens: &SpillwayTokens, message: &SpillwayMessage) -> *mut Arc<Vocabulary> {
    boxed(guarded(message, || {
        let words = cut(tokens.token_bytes, items(tokens.token_lengths, tokens.tokens as usize));
        let count = tokens.firsts as usize;
        let first_words = cut(tokens.first_bytes, items(tokens.first_lengths, count));
        let firsts: Vec<(u32, &[u8])> = items(tokens.first_tokens, count).iter().copied().zip(first_words).collect();
        ensure!(!words.is_empty(), "found no tokens, expected some");
        Ok(Arc::new(Vocabulary::new(&words, &firsts, items(tokens.ends, tokens.end_count as usize))?))
    }))
}

/// # Safety
/// Of `spillway_vocabulary`, or null.
#[no_mangle]
pub unsafe extern "C" fn spillway_vocabulary_free(vocabulary: *mut Arc<Vocabulary>) {
    free(vocabulary);
}

/// # Safety
/// As `grammar.h` has it.
#[no_mangle]
pub unsafe extern "C" fn spillway_grammar(vocabulary: &Arc<Vocabulary>, kind: u32, text: SpillwayText, message: &SpillwayMessage) -> *mut Grammar {
    boxed(guarded(message, || {
        let text = std::str::from_utf8(items(text.bytes, text.length))?;
        let kind = match kind {
            0 => Kind::JsonSchema,
            1 => Kind::Regex,
            2 => Kind::Lark,
            3 => Kind::Choices,
            4 => Kind::Composed,
            _ => bail!("kind: found {kind}, expected 0 to 4"),
        };
        Grammar::new(vocabulary.clone(), kind, text)
    }))
}

/// # Safety
/// Of `spillway_grammar`, or null.
#[no_mangle]
pub unsafe extern "C" fn spillway_grammar_free(grammar: *mut Grammar) {
    free(grammar);
}

/// # Safety
/// As `grammar.h` has it.
#[no_mangle]
pub unsafe extern "C" fn spillway_matcher(grammar: &Grammar, message: &SpillwayMessage) -> *mut RowMatcher {
    boxed(guarded(message, || Ok(RowMatcher::new(grammar.vocabulary.clone(), grammar.matcher()?, grammar.forces))))
}

/// # Safety
/// Of `spillway_matcher`, or null.
#[no_mangle]
pub unsafe extern "C" fn spillway_matcher_free(matcher: *mut RowMatcher) {
    free(matcher);
}

/// # Safety
/// As `grammar.h` has it.
#[no_mangle]
pub unsafe extern "C" fn spillway_matcher_mask(matcher: &mut RowMatcher, message: &SpillwayMessage) -> *const u32 {
    guarded(message, || Ok(matcher.mask()?.as_ptr())).unwrap_or(std::ptr::null())
}

/// # Safety
/// As `grammar.h` has it.
#[no_mangle]
pub unsafe extern "C" fn spillway_matcher_consume(matcher: &mut RowMatcher, token: u32, forced: &mut SpillwayForced, message: &SpillwayMessage) -> i32 {
    let room = if forced.room == 0 { &mut [] } else { slice::from_raw_parts_mut(forced.tokens, forced.room) };
    forced.count = 0;
    let place = guarded(message, || {
        let place = matcher.consume(token)?;
        let (count, behind) = matcher.consume_forced(room, place);
        forced.count = count;
        Ok(behind)
    });
    place.map_or(FAILED, |place| if place.accepting { ACCEPTING } else { 0 } | if place.ended { ENDED } else { 0 })
}
