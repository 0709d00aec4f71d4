# cmake --install: headers, the libraries, a package for find_package(seppo), documents, and the programs as
# bin/seppo-NAME. The build folder is such a package too, of the headers as they are and the libraries as last built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All headers are public except SIMD code (-inl.h), those of kernels, of the tapes' store of nodes, of the table of
# families, of peft's config and of Jinja, and, in three folders of autograd, those that only the library needs.
set(include ${CMAKE_INSTALL_INCLUDEDIR}/seppo)
install(DIRECTORY autograd nn models DESTINATION ${include} FILES_MATCHING PATTERN "*.h"
        PATTERN "*-inl.h" EXCLUDE REGEX "/core/(kernel|node_pool)\\.h$" EXCLUDE
        REGEX "/(autograd/(blas|kernels|ops)|hugging_face/families|text/jinja)$" EXCLUDE
        REGEX "/hugging_face/peft_config\\.h$" EXCLUDE)
install(FILES autograd/blas/multiply.h DESTINATION ${include}/autograd/blas)
install(FILES autograd/ops/attention.h DESTINATION ${include}/autograd/ops)
install(FILES autograd/ops/ctc_loss.h DESTINATION ${include}/autograd/ops)
install(FILES autograd/ops/losses.h DESTINATION ${include}/autograd/ops)
install(FILES autograd/ops/mask.h DESTINATION ${include}/autograd/ops)
install(FILES ${PROJECT_BINARY_DIR}/include/seppo/seppo.h DESTINATION ${include})

# As they lie here, since they refer to each other.
install(FILES LICENSE README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples/small DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples FILES_MATCHING PATTERN "*.cpp")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/seppo)
install(TARGETS seppo seppo_f64 EXPORT seppo-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT seppo-targets NAMESPACE seppo:: DESTINATION ${package})
export(EXPORT seppo-targets NAMESPACE seppo:: FILE ${PROJECT_BINARY_DIR}/seppo-targets.cmake)
if(SEPPO_TEXT)
  install(TARGETS seppo_text seppo_text_f64 EXPORT seppo-text-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT seppo-text-targets NAMESPACE seppo:: DESTINATION ${package})
  export(EXPORT seppo-text-targets NAMESPACE seppo:: FILE ${PROJECT_BINARY_DIR}/seppo-text-targets.cmake)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/seppo-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/seppo-config.cmake ${PROJECT_BINARY_DIR}/seppo-config.cmake @ONLY)
foreach(dependencies dependencies text_dependencies)
  configure_file(cmake/${dependencies}.cmake ${PROJECT_BINARY_DIR}/${dependencies}.cmake COPYONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/seppo-config.cmake cmake/dependencies.cmake cmake/text_dependencies.cmake
        ${PROJECT_BINARY_DIR}/seppo-config-version.cmake
        DESTINATION ${package})

if(SEPPO_BUILD_EXAMPLES)
  foreach(program ${SEPPO_PROGRAMS})
    set(installed seppo-${program})
    if(program STREQUAL inspect)
      set(installed seppo)
    endif()
    install(PROGRAMS $<TARGET_FILE:${program}> RENAME ${installed} DESTINATION ${CMAKE_INSTALL_BINDIR})
  endforeach()
endif()
