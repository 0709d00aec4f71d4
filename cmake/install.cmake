# cmake --install: headers, both libraries, a package for find_package(seppo), and the programs as bin/seppo-NAME.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All headers are public except SIMD code (-inl.h) and, in three folders of autograd, those that only the library needs.
set(include ${CMAKE_INSTALL_INCLUDEDIR}/seppo)
install(DIRECTORY autograd nn models DESTINATION ${include} FILES_MATCHING PATTERN "*.h"
        PATTERN "*-inl.h" EXCLUDE REGEX "/autograd/(blas|kernels|ops)$" EXCLUDE)
install(FILES autograd/blas/gemm.h DESTINATION ${include}/autograd/blas)
install(FILES autograd/ops/attention.h DESTINATION ${include}/autograd/ops)
install(FILES autograd/ops/losses.h DESTINATION ${include}/autograd/ops)
install(FILES autograd/ops/mask.h DESTINATION ${include}/autograd/ops)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/seppo)
install(TARGETS seppo seppo_f64 EXPORT seppo-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT seppo-targets NAMESPACE seppo:: DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/seppo-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/seppo-config.cmake ${PROJECT_BINARY_DIR}/seppo-config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/seppo-config.cmake cmake/dependencies.cmake
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
