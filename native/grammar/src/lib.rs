//! What of llguidance the addon uses, under the few C functions of `grammar.h`. Nothing here unwinds into C++: what panics becomes an error.
mod boundary;
mod bounds;
mod grammar;
mod limits;
mod matcher;
mod vocabulary;
