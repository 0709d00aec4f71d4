# What seppo::text needs, beside the library: PCRE2, for the patterns of tokenizers. Installed too, for
# find_package(seppo COMPONENTS text). If it is missing, this file calls seppo_missing(WHAT PACKAGE).

find_path(SEPPO_PCRE2_INCLUDE pcre2.h)
find_library(SEPPO_PCRE2 pcre2-8)
mark_as_advanced(SEPPO_PCRE2_INCLUDE SEPPO_PCRE2)
if(SEPPO_PCRE2_INCLUDE AND SEPPO_PCRE2)
  set(has_pcre2 ON)
else()
  set(has_pcre2 OFF)
endif()
if(NOT DEFINED SEPPO_TEXT)  # for an installed library, seppo-config.cmake has set it
  set(SEPPO_TEXT AUTO CACHE STRING
      "Build seppo::text, tokenizers and BLEU (nn/text): ON, OFF, or AUTO, which is ON if PCRE2 is found")
endif()
if(SEPPO_TEXT STREQUAL AUTO)  # decided afresh each time, as PCRE2 may be installed later
  set(SEPPO_TEXT ${has_pcre2})
endif()
if(SEPPO_TEXT AND NOT has_pcre2)
  seppo_missing("PCRE2 for its tokenizers (seppo::text)" libpcre2-dev)
endif()
if(SEPPO_TEXT AND NOT TARGET seppo::pcre2)
  add_library(seppo::pcre2 INTERFACE IMPORTED)
  set_target_properties(seppo::pcre2 PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_PCRE2}
                        INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_PCRE2_INCLUDE})
endif()
