# Ways to build the same in less time. Headers that many sources include are parsed once (precompiled headers), and
# sources that share most of them are compiled together (a unity build). The sources do not know of it: without,
# each compiles alone.
#
# Off with a compiler cache, which keeps files one by one, and with other compilers than g++, with which it was not tried.

set(wanted OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT SEPPO_SANITIZE)
  set(wanted ON)
endif()
option(SEPPO_FASTER_BUILD "Parse common headers once, and compile small files together" ${wanted})

# Compiles the sources of a target some at a time, if there are several: their anonymous names must differ.
function(seppo_compile_together target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(count GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${SEPPO_FASTER_BUILD})
  endif()
endfunction()

# With precompiled headers, g++ 12 forgets which ones are the system's, and repeats what it warns wrongly of in them.
function(seppo_forget_system_headers target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
endfunction()

# Precompiles headers for the sources of a target.
function(seppo_precompile target)
  if(SEPPO_FASTER_BUILD)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    seppo_forget_system_headers(${target})
  endif()
endfunction()

# Uses the headers that were precompiled for another target, which has the same options.
function(seppo_precompile_as target other)
  if(SEPPO_FASTER_BUILD)
    target_precompile_headers(${target} REUSE_FROM ${other})
    seppo_forget_system_headers(${target})
  endif()
endfunction()
