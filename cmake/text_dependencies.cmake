# What seppo::text needs, beside the library: Oniguruma, for the patterns of tokenizers; and for normal forms, letter
# case and accents utf8proc, without which tokenizers that need it are refused by name. Installed too, for
# find_package(seppo COMPONENTS text). If Oniguruma is missing, this file calls seppo_missing(WHAT PACKAGE).

find_path(SEPPO_ONIG_INCLUDE oniguruma.h)
find_library(SEPPO_ONIG onig)
find_path(SEPPO_UTF8PROC_INCLUDE utf8proc.h)
find_library(SEPPO_UTF8PROC utf8proc)
mark_as_advanced(SEPPO_ONIG_INCLUDE SEPPO_ONIG SEPPO_UTF8PROC_INCLUDE SEPPO_UTF8PROC)
if(SEPPO_ONIG_INCLUDE AND SEPPO_ONIG)
  set(has_onig ON)
else()
  set(has_onig OFF)
endif()
if(NOT DEFINED SEPPO_TEXT)  # for an installed library, seppo-config.cmake has set it
  set(SEPPO_TEXT AUTO CACHE STRING
      "Build seppo::text, tokenizers and BLEU (nn/text): ON, OFF, or AUTO, which is ON if Oniguruma is found")
endif()
if(SEPPO_TEXT STREQUAL AUTO)  # decided afresh each time, as Oniguruma may be installed later
  set(SEPPO_TEXT ${has_onig})
endif()
if(SEPPO_TEXT AND NOT has_onig)
  seppo_missing("Oniguruma for its tokenizers (seppo::text)" libonig-dev)
endif()
if(SEPPO_TEXT AND NOT TARGET seppo::onig)
  add_library(seppo::onig INTERFACE IMPORTED)
  set_target_properties(seppo::onig PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_ONIG}
                        INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_ONIG_INCLUDE})
endif()
if(NOT DEFINED SEPPO_TEXT_UTF8PROC)  # for an installed library, likewise
  set(SEPPO_TEXT_UTF8PROC OFF)
  if(SEPPO_UTF8PROC_INCLUDE AND SEPPO_UTF8PROC)
    set(SEPPO_TEXT_UTF8PROC ON)
  endif()
endif()
if(SEPPO_TEXT AND SEPPO_TEXT_UTF8PROC AND NOT SEPPO_UTF8PROC)
  seppo_missing("utf8proc for its tokenizers (seppo::text)" libutf8proc-dev)
endif()
if(SEPPO_TEXT AND SEPPO_TEXT_UTF8PROC AND NOT TARGET seppo::utf8proc)
  add_library(seppo::utf8proc INTERFACE IMPORTED)
  set_target_properties(seppo::utf8proc PROPERTIES INTERFACE_LINK_LIBRARIES ${SEPPO_UTF8PROC}
                        INTERFACE_INCLUDE_DIRECTORIES ${SEPPO_UTF8PROC_INCLUDE})
endif()
