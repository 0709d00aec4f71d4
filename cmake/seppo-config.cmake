# find_package(seppo): seppo::seppo in single precision, for training, and seppo::f64 in double, for checking gradients.
# A program may link both, but each of its source files can use only one.
macro(seppo_missing what package)
  set(seppo_FOUND FALSE)
  set(seppo_NOT_FOUND_MESSAGE "seppo needs ${what}. On Debian or Ubuntu: sudo apt-get install ${package}")
  return()
endmacro()
unset(seppo_NOT_FOUND_MESSAGE)
set(SEPPO_MPI @SEPPO_MPI@)
set(SEPPO_FAST @SEPPO_FAST@)
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
if(NOT seppo_NOT_FOUND_MESSAGE)
  include(${CMAKE_CURRENT_LIST_DIR}/seppo-targets.cmake)
endif()
