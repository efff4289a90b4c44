# Headers that most files include are parsed once: for the rooms (owner: xtrace_base) and for the test programs (owner:
# the first one). Reuse needs the same compiler flags; definitions may differ as long as these headers ignore them.
option(XTRACE_PCH "precompiled headers; OFF checks that every file includes what it uses" ON)

function(xtrace_precompile target header owner)  # owner: global property that names the first target
  if(NOT XTRACE_PCH)
    return()
  endif()
  get_property(first GLOBAL PROPERTY ${owner})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
    set_property(GLOBAL PROPERTY ${owner} ${target})
  endif()
endfunction()

# xtrace_library(name SOURCES a.cc b.cc LIBS xtrace_base ...)   a room of the house: static library xtrace_<name>
function(xtrace_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_library(xtrace_${name} STATIC ${A_SOURCES})
  target_include_directories(xtrace_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(xtrace_${name} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror=return-type)
  target_link_libraries(xtrace_${name} PUBLIC ${A_LIBS})
  xtrace_precompile(xtrace_${name} precompiled.h XTRACE_PCH_ROOMS)
endfunction()

# xtrace_test(name SOURCES a_test.cc LIBS xtrace_x [LABELS gpu])   one GoogleTest program, one CTest entry
function(xtrace_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  # -O0: these programs run for seconds; compiling them is what a build spends its time on.
  target_compile_options(${name} PRIVATE -Wall -Wextra -O0)
  target_compile_definitions(${name} PRIVATE XTRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             XTRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${A_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  xtrace_precompile(${name} precompiled_test.h XTRACE_PCH_TESTS)
  add_test(NAME ${name} COMMAND ${name})
  if(A_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}")
  endif()
endfunction()

# A room takes part once it has a CMakeLists.txt.
macro(xtrace_room directory)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${directory}/CMakeLists.txt)
    add_subdirectory(${directory})
  endif()
endmacro()
