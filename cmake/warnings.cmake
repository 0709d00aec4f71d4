# How seppo's own code is compiled. Warnings are errors while working on seppo itself, not for its users.

function(seppo_strict target)
  # At -O2 g++ 12 does not vectorise the plain loops of the kernels.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wconversion -Wsign-conversion
                           -Wdouble-promotion -Werror
                           # g++ 12 sees overlaps in std::string that cannot be (GCC bug 105329).
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  endif()
  if(SEPPO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-sanitize-recover=all
                           -fno-omit-frame-pointer)
    # With the sanitizers on, g++ 12 suspects std::function of being uninitialised.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()
