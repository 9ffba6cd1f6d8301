# Compiling is most of what tests take: what runs briefly is not worth the time that finding its best machine code takes.
# (Under a sanitizer all is optimised little, anyway.)
function(spillway_optimise_less target)
  if(NOT SPILLWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# What only says what is expected, even less.
function(spillway_optimise_least target)
  if(NOT SPILLWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -Og $<$<CXX_COMPILER_ID:GNU>:-fira-region=one>)
  endif()
endfunction()
