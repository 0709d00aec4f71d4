# What the library is built from. Installed too, for find_package(seppo): who links the static libraries links these.
# A missing piece calls seppo_missing(WHAT PACKAGE), which the including file defines.

find_package(Threads REQUIRED)

find_path(SEPPO_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread
          HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
find_library(SEPPO_OPENBLAS openblas)
if(NOT SEPPO_CBLAS_INCLUDE OR NOT SEPPO_OPENBLAS)
  seppo_missing("OpenBLAS with its C interface" libopenblas-dev)
endif()
find_path(SEPPO_HWY_INCLUDE hwy/highway.h)
find_library(SEPPO_HWY hwy)
if(NOT SEPPO_HWY_INCLUDE OR NOT SEPPO_HWY)
  seppo_missing("Google Highway" libhwy-dev)
endif()
find_path(SEPPO_JSON_INCLUDE nlohmann/json.hpp)
if(NOT SEPPO_JSON_INCLUDE)
  seppo_missing("nlohmann-json" nlohmann-json3-dev)
endif()
find_path(SEPPO_XXHASH_INCLUDE xxhash.h)
if(NOT SEPPO_XXHASH_INCLUDE)
  seppo_missing("xxHash" libxxhash-dev)
endif()
mark_as_advanced(SEPPO_CBLAS_INCLUDE SEPPO_OPENBLAS SEPPO_HWY_INCLUDE SEPPO_HWY SEPPO_JSON_INCLUDE
                 SEPPO_XXHASH_INCLUDE)

foreach(name openblas highway json xxhash)
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
