# The library's dependencies. Installed too, for find_package(seppo): programs that link the static libraries need them.
# If one is missing, this file calls seppo_missing(WHAT PACKAGE), which the including file defines.

find_package(Threads REQUIRED)

# For an installed library, seppo-config.cmake has set SEPPO_BLAS.
if(NOT DEFINED SEPPO_BLAS)
  set(SEPPO_BLAS OpenBLAS CACHE STRING "Who computes large products: OpenBLAS, or Accelerate on macOS (untested)")
  set_property(CACHE SEPPO_BLAS PROPERTY STRINGS OpenBLAS Accelerate)
endif()
if(SEPPO_BLAS STREQUAL Accelerate)
  find_library(SEPPO_OPENBLAS Accelerate)
  find_path(SEPPO_CBLAS_INCLUDE cblas.h HINTS ${SEPPO_OPENBLAS}/Frameworks/vecLib.framework/Headers)
else()
  find_path(SEPPO_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread
            HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
  find_library(SEPPO_OPENBLAS openblas)
endif()
if(NOT SEPPO_CBLAS_INCLUDE OR NOT SEPPO_OPENBLAS)
  seppo_missing("${SEPPO_BLAS} with its C interface" libopenblas-dev)
endif()
find_path(SEPPO_HWY_INCLUDE hwy/highway.h)
find_library(SEPPO_HWY hwy)
if((SEPPO_FAST OR SEPPO_BUILD_EXAMPLES) AND NOT (SEPPO_HWY_INCLUDE AND SEPPO_HWY))
  seppo_missing("Google Highway (or -DSEPPO_FAST=OFF -DSEPPO_BUILD_EXAMPLES=OFF)" libhwy-dev)
endif()
find_path(SEPPO_JSON_INCLUDE nlohmann/json.hpp)
if(NOT SEPPO_JSON_INCLUDE)
  seppo_missing("nlohmann-json" nlohmann-json3-dev)
endif()
find_path(SEPPO_XXHASH_INCLUDE xxhash.h)
if(NOT SEPPO_XXHASH_INCLUDE)
  seppo_missing("xxHash" libxxhash-dev)
endif()
# Optional; for an installed library, seppo-config.cmake has set SEPPO_MPI.
find_path(SEPPO_MPI_INCLUDE mpi.h HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include)
find_library(SEPPO_MPI_LIBRARY mpi)
if(SEPPO_MPI_INCLUDE AND SEPPO_MPI_LIBRARY)
  set(has_mpi ON)
else()
  set(has_mpi OFF)
endif()
if(NOT DEFINED SEPPO_MPI)
  set(SEPPO_MPI AUTO CACHE STRING
      "Train on several processes and machines with MPI (nn/train/ranks.h): ON, OFF, or AUTO, which is ON if it is found")
endif()
if(SEPPO_MPI STREQUAL AUTO)  # decided afresh each time, as MPI may be installed later
  set(SEPPO_MPI ${has_mpi})
endif()
if(SEPPO_MPI AND NOT has_mpi)
  seppo_missing("MPI (or -DSEPPO_MPI=OFF)" "libopenmpi-dev openmpi-bin")
endif()
mark_as_advanced(SEPPO_MPI_INCLUDE SEPPO_MPI_LIBRARY SEPPO_CBLAS_INCLUDE SEPPO_OPENBLAS SEPPO_HWY_INCLUDE SEPPO_HWY SEPPO_JSON_INCLUDE
                 SEPPO_XXHASH_INCLUDE)

foreach(name openblas highway json xxhash mpi)
  if(NOT TARGET seppo::${name})
    add_library(seppo::${name} INTERFACE IMPORTED)
  endif()
endforeach()
set_target_properties(seppo::openblas PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_OPENBLAS}
                      INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_CBLAS_INCLUDE})
set_target_properties(seppo::highway PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_HWY}
                      INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_HWY_INCLUDE})
set_target_properties(seppo::json PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_JSON_INCLUDE})
set_target_properties(seppo::xxhash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_XXHASH_INCLUDE})
if(SEPPO_MPI)
  set_target_properties(seppo::mpi PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_MPI_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_MPI_INCLUDE})
endif()
