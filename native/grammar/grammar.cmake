# Constrained decoding, in Rust: a static library that cargo makes, wherever cargo is. All build folders of this source share it.
set(SPILLWAY_GRAMMAR AUTO CACHE STRING "Constrained decoding: AUTO (where cargo is found), ON (an error without) or OFF")
set(SPILLWAY_GRAMMAR_LIBRARY "")

if(NOT SPILLWAY_GRAMMAR STREQUAL "OFF")
  find_program(SPILLWAY_CARGO cargo HINTS $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin)
  if(SPILLWAY_CARGO)
    set(grammar_folder ${PROJECT_SOURCE_DIR}/native/grammar)
    set(grammar_build ${PROJECT_SOURCE_DIR}/native/build-grammar)
    set(SPILLWAY_GRAMMAR_LIBRARY ${grammar_build}/release/libspillway_grammar.a)
    file(GLOB grammar_sources CONFIGURE_DEPENDS ${grammar_folder}/src/*.rs)
    add_custom_command(
      OUTPUT ${SPILLWAY_GRAMMAR_LIBRARY}
      # Its own flags are the profile's; a compiler that cmake was given is for C++.
      COMMAND ${CMAKE_COMMAND} -E env --unset=RUSTFLAGS ${SPILLWAY_CARGO} build --release --locked --quiet --target-dir ${grammar_build}
      # An unchanged library keeps its time, and would be made again and again.
      COMMAND ${CMAKE_COMMAND} -E touch ${SPILLWAY_GRAMMAR_LIBRARY}
      WORKING_DIRECTORY ${grammar_folder}
      DEPENDS ${grammar_sources} ${grammar_folder}/Cargo.toml ${grammar_folder}/Cargo.lock
      COMMENT "Building constrained decoding with cargo"
      VERBATIM)
    add_custom_target(spillway_grammar_crate DEPENDS ${SPILLWAY_GRAMMAR_LIBRARY})
  elseif(SPILLWAY_GRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "SPILLWAY_GRAMMAR is ON, but cargo was not found: install Rust's cargo (1.87 or newer)")
  else()
    message(STATUS "Spillway is built without constrained decoding (JSON schemas, regular expressions, grammars): cargo was not found. Install Rust's cargo (1.87 or newer) and build again")
  endif()
endif()

add_library(spillway_grammar STATIC ${PROJECT_SOURCE_DIR}/native/grammar/Grammar.cpp)
target_link_libraries(spillway_grammar PUBLIC spillway_runtime)
if(SPILLWAY_GRAMMAR_LIBRARY)
  target_compile_definitions(spillway_grammar PRIVATE SPILLWAY_GRAMMARS)
  add_dependencies(spillway_grammar spillway_grammar_crate)
  target_link_libraries(spillway_grammar PUBLIC ${SPILLWAY_GRAMMAR_LIBRARY} ${CMAKE_DL_LIBS} Threads::Threads)
endif()
