# pkg-config --cflags --libs seppo, or seppo-f64, seppo-text, seppo-text-f64: the shared library if it is installed;
# with --static, also what the static one needs.

# What a linker is told to use these libraries: those with a usual name and place by name alone.
function(seppo_link_flags result)
  set(flags "")
  foreach(library ${ARGN})
    get_filename_component(name ${library} NAME)
    if(name MATCHES "^lib(.+)\\.(so|a|dylib)$")
      list(APPEND flags -l${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN flags " " flags)
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

# Writes and installs NAME.pc for a library, with what it says to users (requires, flags) and what a static one needs.
function(seppo_pkg_config name library description requires flags)
  seppo_link_flags(private ${ARGN})
  file(RELATIVE_PATH prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" prefix ${prefix})
  configure_file(cmake/seppo.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

set(needed ${SEPPO_OPENBLAS})
set(flags "-pthread")
if(SEPPO_FAST)
  list(APPEND needed ${SEPPO_HWY})
endif()
if(SEPPO_MPI)
  list(APPEND needed ${SEPPO_MPI_LIBRARY})
  string(APPEND flags " -DSEPPO_MPI")
endif()
set(needed_by_text ${SEPPO_ONIG})
if(SEPPO_TEXT_UTF8PROC)
  list(APPEND needed_by_text ${SEPPO_UTF8PROC})
endif()
seppo_pkg_config(seppo seppo "${PROJECT_DESCRIPTION}, in single precision" nlohmann_json "${flags}" ${needed})
seppo_pkg_config(seppo-f64 seppo_f64 "${PROJECT_DESCRIPTION}, in double precision" nlohmann_json
                 "${flags} -DSEPPO_FLOAT64" ${needed})
if(SEPPO_TEXT)
  seppo_pkg_config(seppo-text seppo_text "Tokenizers for seppo" "seppo = ${PROJECT_VERSION}" "" ${needed_by_text})
  seppo_pkg_config(seppo-text-f64 seppo_text_f64 "Tokenizers for seppo in double precision"
                   "seppo-f64 = ${PROJECT_VERSION}" "" ${needed_by_text})
endif()
