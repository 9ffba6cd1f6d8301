# Constrained decoding, in Rust: a static library that cargo makes, wherever cargo is. All build folders of this source share it.
set(SPILLWAY_GRAMMAR AUTO CACHE STRING "Constrained decoding: AUTO (where cargo can build it), ON (an error without) or OFF")
set(SPILLWAY_CARGO_TARGET "" CACHE STRING "Rust's name of the platform that is built for, such as aarch64-unknown-linux-gnu, where that is another one")
set(SPILLWAY_LEAST_CARGO 1.87)

# What stands in the way of building it; empty: nothing does. What it is made of is fetched now, so that a machine without a network finds out before the build.
function(spillway_cargo_missing result)
  if(CMAKE_CROSSCOMPILING AND NOT SPILLWAY_CARGO_TARGET)
    set(${result} "it is built for another platform, which SPILLWAY_CARGO_TARGET does not name" PARENT_SCOPE)
    return()
  endif()
  find_program(SPILLWAY_CARGO cargo HINTS $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin)
  if(NOT SPILLWAY_CARGO)
    set(${result} "cargo was not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${SPILLWAY_CARGO} --version OUTPUT_VARIABLE said ERROR_QUIET)
  if(NOT said MATCHES "cargo ([0-9]+\\.[0-9]+)" OR CMAKE_MATCH_1 VERSION_LESS SPILLWAY_LEAST_CARGO)
    string(STRIP "${said}" said)
    set(${result} "found ${SPILLWAY_CARGO} (${said}), expected version ${SPILLWAY_LEAST_CARGO} or newer" PARENT_SCOPE)
    return()
  endif()
  set(manifest ${PROJECT_SOURCE_DIR}/native/grammar/Cargo.toml)
  execute_process(COMMAND ${SPILLWAY_CARGO} fetch --locked --quiet --manifest-path ${manifest} RESULT_VARIABLE failed ERROR_VARIABLE said OUTPUT_QUIET)
  if(failed)
    string(REGEX REPLACE "\n.*" "" said "${said}")
    set(${result} "cargo cannot fetch what it is made of (${said})" PARENT_SCOPE)
    return()
  endif()
  set(${result} "" PARENT_SCOPE)
endfunction()

add_library(spillway_grammar STATIC ${PROJECT_SOURCE_DIR}/native/grammar/Grammar.cpp)
target_link_libraries(spillway_grammar PUBLIC spillway_system)
if(NOT SPILLWAY_GRAMMAR STREQUAL "OFF")
  spillway_cargo_missing(missing)
  if(NOT missing STREQUAL "" AND SPILLWAY_GRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "SPILLWAY_GRAMMAR is ON, but ${missing}")
  elseif(NOT missing STREQUAL "")
    message(STATUS "Spillway is built without constrained decoding (JSON schemas, regular expressions, grammars): ${missing}. Install Rust's cargo and build again")
  else()
    set(grammar_folder ${PROJECT_SOURCE_DIR}/native/grammar)
    set(grammar_build ${PROJECT_SOURCE_DIR}/native/build-grammar)
    set(grammar_library ${grammar_build}/${SPILLWAY_CARGO_TARGET}/release/libspillway_grammar.a)
    set(grammar_target "")
    set(grammar_linker "")
    if(SPILLWAY_CARGO_TARGET)
      set(grammar_target --target ${SPILLWAY_CARGO_TARGET})
      # llguidance is made into a shared library, too, which nobody needs, and which cargo would link with the compiler of this system.
      string(TOUPPER ${SPILLWAY_CARGO_TARGET} linker_name)
      string(REPLACE - _ linker_name ${linker_name})
      set(grammar_linker CARGO_TARGET_${linker_name}_LINKER=${CMAKE_CXX_COMPILER})
    endif()
    file(GLOB grammar_sources CONFIGURE_DEPENDS ${grammar_folder}/src/*.rs)
    add_custom_command(
      OUTPUT ${grammar_library}
      COMMAND ${CMAKE_COMMAND} -E env --unset=RUSTFLAGS ${grammar_linker} ${SPILLWAY_CARGO} build --release --locked --quiet --target-dir ${grammar_build} ${grammar_target}
      # cargo leaves a library as it is that comes out the same; it would be made again and again.
      COMMAND ${CMAKE_COMMAND} -E touch ${grammar_library}
      WORKING_DIRECTORY ${grammar_folder}
      DEPENDS ${grammar_sources} ${grammar_folder}/Cargo.toml ${grammar_folder}/Cargo.lock
      COMMENT "Building constrained decoding with cargo"
      VERBATIM)
    add_custom_target(spillway_grammar_crate DEPENDS ${grammar_library})
    add_dependencies(spillway_grammar spillway_grammar_crate)
    target_compile_definitions(spillway_grammar PRIVATE SPILLWAY_GRAMMARS)
    target_link_libraries(spillway_grammar PUBLIC ${grammar_library} ${CMAKE_DL_LIBS} Threads::Threads)
  endif()
endif()
