# How seppo's own code is compiled. Warnings are errors while working on seppo itself, not for its users.

function(seppo_strict target)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wconversion -Wsign-conversion -Werror
                           # To clang 14 double{x} is no less implicit than x. g++ 12 sees overlaps in std::string that
                           # cannot be (GCC bug 105329).
                           $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  endif()
  if(SEPPO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${SEPPO_SANITIZE} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer)
    # With the sanitizers on, g++ 12 suspects std::function of being uninitialised.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=${SEPPO_SANITIZE})
  endif()
endfunction()

# What spends its time in the library, such as programs and tests, is compiled for a quick build.
function(seppo_quick target)
  seppo_strict(${target})
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()
