# The CUDA kernels, and the model on them, as C++ over the emulator.
include(${CMAKE_CURRENT_LIST_DIR}/../optimiseLess.cmake)
set(SPILLWAY_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/emulator)

# target: objects of the .cu files that follow the options. With nvcc about, a .cu file is CUDA for CMake; a copy of its name with another ending is C++ for all.
function(spillway_emulated target)
  cmake_parse_arguments(PARSE_ARGV 1 emulated "" "" "OPTIONS")
  file(GLOB kernels CONFIGURE_DEPENDS ${emulated_UNPARSED_ARGUMENTS})
  set(sources "")
  foreach(kernel IN LISTS kernels)
    get_filename_component(name ${kernel} NAME_WE)
    set(copy ${PROJECT_BINARY_DIR}/emulated/${name}.cpp)
    file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"${kernel}\"\n" @ONLY)
    list(APPEND sources ${copy})
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${target} PRIVATE ${SPILLWAY_EMULATOR})
  target_compile_definitions(${target} PRIVATE SPILLWAY_HAS_CUDA)
  target_compile_options(${target} PRIVATE -Wno-unknown-pragmas ${emulated_OPTIONS})
  spillway_optimise_less(${target})
endfunction()

# target: objects of the model on a device, and of the emulator; whoever links them links kernels' objects, too.
function(spillway_emulated_gpu target)
  file(GLOB emulator CONFIGURE_DEPENDS ${SPILLWAY_EMULATOR}/*.cpp)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${SPILLWAY_GPU_SOURCES} ${emulator})
  target_include_directories(${target} PUBLIC ${SPILLWAY_EMULATOR})
  target_compile_definitions(${target} PUBLIC SPILLWAY_HAS_CUDA)
  target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)
  if(NOT SPILLWAY_SANITIZE)
    set_source_files_properties(${SPILLWAY_GPU_SOURCES} PROPERTIES COMPILE_OPTIONS -O1)  # it is the emulator that takes time
  endif()
  target_link_libraries(${target} PUBLIC spillway_core)
endfunction()
