# cpack -G DEB: Debian packages of the library (libseppo and its version), of what compiling with it needs
# (libseppo-dev), and of the programs (seppo). The preset `package` builds them, and script/check packages examines them.

set(SEPPO_MAINTAINER "seppo maintainers <maintainers@seppo.invalid>" CACHE STRING
    "Who answers for Debian packages that are built here: NAME <ADDRESS>")
set(runtime libseppo${SEPPO_SOVERSION})

# Each package has its licence and its changes, in the place and form that Debian wants.
set(notices ${PROJECT_BINARY_DIR}/notices)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if it is set
configure_file(cmake/debian/changelog.in ${notices}/changelog @ONLY)
configure_file(cmake/debian/copyright.in ${notices}/copyright @ONLY)
find_program(SEPPO_GZIP gzip REQUIRED)
execute_process(COMMAND ${SEPPO_GZIP} -9nf ${notices}/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(package_and_component ${runtime}:Runtime libseppo-dev:Development seppo:Tools)
  string(REPLACE ":" ";" pair ${package_and_component})
  list(GET pair 0 name)
  list(GET pair 1 component)
  install(FILES ${notices}/changelog.gz ${notices}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
          COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME seppo)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${SEPPO_MAINTAINER})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL Runtime Development Tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "autograd and Transformers for the CPU: shared library
 What programs need that were linked with seppo's shared library, which
 differentiates what they compute and trains and runs Transformers, in single
 and in double precision.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libseppo-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(needed "${runtime} (= ${PROJECT_VERSION}), libopenblas-dev, libhwy-dev, nlohmann-json3-dev, libxxhash-dev")
if(SEPPO_MPI)
  string(APPEND needed ", libopenmpi-dev")
endif()
if(SEPPO_TEXT)
  string(APPEND needed ", libonig-dev")
endif()
if(SEPPO_TEXT_UTF8PROC)
  string(APPEND needed ", libutf8proc-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ${needed})
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "autograd and Transformers for the CPU: headers and libraries
 Headers, static libraries, packages for CMake and pkg-config, and documents
 of seppo, which differentiates what a program computes and trains and runs
 Transformers.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME seppo)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "train and use small and medium Transformers on the CPU
 Programs that learn arithmetic, reversal and translation, and that train,
 fine-tune and run language models, also those of Hugging Face's folders and
 of GGUF files. The program seppo lists and starts them.")
include(CPack)
