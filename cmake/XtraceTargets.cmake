# xtrace_library(name SOURCES a.cc b.cc LIBS xtrace_base ...)   a room of the house: static library xtrace_<name>
function(xtrace_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_library(xtrace_${name} STATIC ${A_SOURCES})
  target_include_directories(xtrace_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(xtrace_${name} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror=return-type)
  target_link_libraries(xtrace_${name} PUBLIC ${A_LIBS})
endfunction()

# xtrace_test(name SOURCES a_test.cc LIBS xtrace_x [LABELS gpu])   one GoogleTest program, one CTest entry
function(xtrace_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_compile_definitions(${name} PRIVATE XTRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             XTRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${A_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
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
