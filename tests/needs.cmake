# What a test needs, as its source says in a line at its head: clauses of a key and its values, as in
#
#   // needs: precision: double single; simd: avx2 plain; programs: llm charlm
#
# precision        scalar types that it is built for: `single` alone, if it says nothing. The first build has the test's
#                  name, a second one the suffix _f32 or _f64.
# full             another scalar type, only with SEPPO_TEST_BOTH_PRECISIONS (script/test --full)
# simd             instruction sets that it also runs with (support/simd_targets.cpp), where there are SIMD kernels
# engine           `fast`: it tests what a build with SEPPO_FAST=OFF does not have
# programs         programs that it starts; the library of a program's sources, if there is one, is linked. `all` are
#                  those with a folder in examples/.
# libraries        CMake targets to link
# environment      variables, as NAME=VALUE
# not_in_valgrind  scalar types for which it would take hours there, or would check nothing

function(seppo_read_needs source)
  set(keys precision full simd engine programs libraries environment not_in_valgrind)
  foreach(key ${keys})
    set(needs_${key} "")
  endforeach()
  file(STRINGS ${source} line REGEX "^// needs: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// needs: *" "" line "${line}")
  string(REGEX REPLACE "\\\\?; *" ";" clauses "${line}")
  foreach(clause ${clauses})
    if(NOT clause MATCHES "^([a-z_]+): +(.+)$" OR NOT CMAKE_MATCH_1 IN_LIST keys)
      message(FATAL_ERROR "${source}: '${clause}' is not one of: ${keys}")
    endif()
    separate_arguments(needs_${CMAKE_MATCH_1} UNIX_COMMAND "${CMAKE_MATCH_2}")
  endforeach()
  if(NOT needs_precision)
    set(needs_precision single)
  endif()
  if(SEPPO_TEST_BOTH_PRECISIONS)
    list(APPEND needs_precision ${needs_full})
  endif()
  if(NOT SEPPO_FAST)
    set(needs_simd "")
  endif()
  foreach(key ${keys})
    set(needs_${key} "${needs_${key}}" PARENT_SCOPE)
  endforeach()
endfunction()
