# Compile options for seppo's own code. Warnings are errors only if seppo is the top-level project, not for its users.

function(seppo_strict target)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror)
    # clang's -Wshadow also warns of a parameter with the name of a member, and clang 14 takes even double{x} for an
    # implicit promotion. g++ 12 warns of overlaps in std::string that cannot occur (GCC bug 105329).
    target_compile_options(${target} PRIVATE
                           "$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local;-Wdouble-promotion;-Wno-restrict>")
    # Newer ones warn of what std::stable_sort of libstdc++ 12 calls itself.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  endif()
  if(SEPPO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${SEPPO_SANITIZE} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer)
    # With sanitizers, g++ 12 warns wrongly that std::function may be uninitialised.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=${SEPPO_SANITIZE})
  endif()
endfunction()

# For programs and tests, which spend their time in the library: less optimisation, -O1 or as given, for a faster build.
function(seppo_quick target)
  seppo_strict(${target})
  set(level ${ARGN})
  if(NOT level)
    set(level -O1)
  endif()
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:${level}>)
endfunction()
