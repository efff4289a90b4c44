# Headers that most files include are parsed once for the rooms (cmake/precompiled.h, owner xtrace_base), once for the test
# programs (cmake/precompiled_test.h, owner xtrace_test_headers) and once for the program, with JSON (cmake/precompiled_json.h).
# Who uses the headers of an owner must have its compiler flags and all its definitions.
option(XTRACE_PCH "precompiled headers; OFF checks that every file includes what it uses" ON)

# Several files to a compiler's run: what a file shares with its neighbours is parsed and instantiated once. Names in the unnamed
# namespaces of such files must differ; a file for which that is no good has a namespace of its own, or stands behind ALONE, and so must one
# with OBJECT_DEPENDS.
option(XTRACE_UNITY "compile several files in one run; OFF is better while files are edited" ON)

# Compiles these files of a target in one run.
function(xtrace_run target name)  # files...
  if(XTRACE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${target}_${name})
  endif()
endfunction()

# The files of a target, at most `batch` to a run (0: all), but for those named behind it.
function(xtrace_together target batch)  # files to leave out...
  get_target_property(files ${target} SOURCES)
  list(FILTER files INCLUDE REGEX "\\.cc$")
  if(ARGN)
    list(REMOVE_ITEM files ${ARGN})
  endif()
  set(n 0)
  foreach(file ${files})
    if(batch)
      math(EXPR run "${n} / ${batch}")
    else()
      set(run 0)
    endif()
    xtrace_run(${target} ${run} ${file})
    math(EXPR n "${n} + 1")
  endforeach()
endfunction()

# GCC looks for garbage whenever its heap has doubled, in all of the precompiled headers as well: a fifth of the time of a file
# [measured, GCC 12.2: 9.8 s and 690 MB with, 8.1 s and 776 MB without, of tests/unit/interp]. Here first at 2 GB, which no file reaches.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>")
endif()

function(xtrace_precompile target how what)  # PRIVATE header, or REUSE_FROM owner
  if(XTRACE_PCH)
    target_precompile_headers(${target} ${how} ${what})
  endif()
endfunction()

# xtrace_library(name SOURCES a.cc b.cc LIBS xtrace_base ... [ALONE b.cc | APART] [JSON c.cc])   a room of the house: static
# library xtrace_<name>. APART: every file alone, for a library of which a program may take a part only. JSON: files that read or
# write it, in a run of their own: its header takes seconds.
function(xtrace_library name)
  cmake_parse_arguments(A "APART" "" "SOURCES;LIBS;ALONE;JSON" ${ARGN})
  list(APPEND A_SOURCES ${A_JSON})
  add_library(xtrace_${name} STATIC ${A_SOURCES})
  target_include_directories(xtrace_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(xtrace_${name} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror=return-type)
  target_link_libraries(xtrace_${name} PUBLIC ${A_LIBS})
  if(name STREQUAL base)
    xtrace_precompile(xtrace_base PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  else()
    xtrace_precompile(xtrace_${name} REUSE_FROM xtrace_base)
  endif()
  if(NOT A_APART)
    xtrace_together(xtrace_${name} 10 ${A_ALONE} ${A_JSON})
  endif()
  if(A_JSON)
    xtrace_run(xtrace_${name} json ${A_JSON})
  endif()
endfunction()

# xtrace_support(name SOURCES ... LIBS ... [ALONE ...])   a static library of a test or of developers' programs
function(xtrace_support name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;ALONE" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra -O1)
  target_link_libraries(${name} PUBLIC ${A_LIBS})
  xtrace_precompile(${name} REUSE_FROM xtrace_base)
  xtrace_together(${name} 10 ${A_ALONE})
endfunction()

# xtrace_tool(name SOURCES ... LIBS ...)   a program for developers, with the C++ library inside
function(xtrace_tool name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  # -fPIC: as the headers that it shares with the rooms were compiled. -O1: what takes time when it runs is in the rooms.
  target_compile_options(${name} PRIVATE -Wall -Wextra -fPIC -O1)
  target_link_libraries(${name} PRIVATE ${A_LIBS})
  if(NOT XTRACE_ASAN)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  xtrace_precompile(${name} REUSE_FROM xtrace_base)
endfunction()

# A GoogleTest program, without an entry in CTest.
function(xtrace_test_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;ALONE" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  # -O0: these programs run for seconds; compiling them is what a build spends its time on.
  target_compile_options(${name} PRIVATE -Wall -Wextra -O0)
  target_compile_definitions(${name} PRIVATE XTRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             XTRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${A_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  # What GoogleTest's macros instantiate is most of what is compiled here, and nearly the same in each file.
  xtrace_together(${name} 0 ${A_ALONE})
endfunction()

# xtrace_test(name SOURCES a_test.cc LIBS xtrace_x [LABELS gpu] [ALONE a_test.cc])   one GoogleTest program, one CTest entry
function(xtrace_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;LABELS;ALONE" ${ARGN})
  xtrace_test_program(${name} SOURCES ${A_SOURCES} LIBS ${A_LIBS} ALONE ${A_ALONE})
  xtrace_precompile(${name} REUSE_FROM xtrace_test_headers)
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
