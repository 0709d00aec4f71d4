# cmake --install: headers, the libraries, packages for find_package(seppo) and pkg-config, documents, and the programs
# as bin/seppo-NAME. The build folder is such a package too, of the headers as they are and the libraries as last built.
# Components: Runtime is what a program needs that was linked with the shared library, Tools are the programs, and
# Development is all else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME Development)

# All headers are public except SIMD code (-inl.h), those of kernels, of the system, of the tapes' store of nodes, of
# safetensors' headers, of frozen values, of the table of families, of peft's config, of GGUF's words and of Jinja, and,
# in three folders of autograd, those that only the library needs.
set(include ${CMAKE_INSTALL_INCLUDEDIR}/seppo)
install(DIRECTORY autograd nn models DESTINATION ${include} FILES_MATCHING PATTERN "*.h"
        PATTERN "*-inl.h" EXCLUDE REGEX "/core/(kernel|node_pool|pages)\\.h$" EXCLUDE
        REGEX "/(autograd/(blas|kernels|ops)|hugging_face/families|text/jinja|posix|windows)$" EXCLUDE
        REGEX "/(hugging_face/peft_config|io/(frozen_values|safetensors_header|system)|text/gguf_words)\\.h$" EXCLUDE
        REGEX "/gguf/(architectures|gguf_tensors)\\.h$" EXCLUDE)
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

# Installs libraries of one kind, and describes them to find_package in a file NAME-targets.cmake.
function(seppo_install_libraries name)
  install(TARGETS ${ARGN} EXPORT ${name}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Runtime NAMELINK_COMPONENT Development
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${name}-targets NAMESPACE seppo:: DESTINATION ${package})
  export(EXPORT ${name}-targets NAMESPACE seppo:: FILE ${PROJECT_BINARY_DIR}/${name}-targets.cmake)
endfunction()

seppo_install_libraries(seppo-static seppo seppo_f64)
if(SEPPO_TEXT)
  seppo_install_libraries(seppo-text-static seppo_text seppo_text_f64)
endif()
if(SEPPO_SHARED)
  seppo_install_libraries(seppo-shared seppo_shared seppo_f64_shared)
  if(SEPPO_TEXT)
    seppo_install_libraries(seppo-text-shared seppo_text_shared seppo_text_f64_shared)
  endif()
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/seppo-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/seppo-config.cmake ${PROJECT_BINARY_DIR}/seppo-config.cmake @ONLY)
foreach(dependencies dependencies text_dependencies)
  configure_file(cmake/${dependencies}.cmake ${PROJECT_BINARY_DIR}/${dependencies}.cmake COPYONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/seppo-config.cmake cmake/dependencies.cmake cmake/text_dependencies.cmake
        ${PROJECT_BINARY_DIR}/seppo-config-version.cmake
        DESTINATION ${package})
include(cmake/pkg_config.cmake)

if(SEPPO_BUILD_EXAMPLES)
  foreach(program ${SEPPO_PROGRAMS})
    set(installed seppo-${program})
    if(program STREQUAL inspect)
      set(installed seppo)
    endif()
    install(PROGRAMS $<TARGET_FILE:${program}> RENAME ${installed} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Tools)
  endforeach()
  include(cmake/manuals.cmake)
endif()
