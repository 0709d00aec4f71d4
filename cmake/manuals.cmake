# Manual pages and completions of shells, which the programs print. Each is run by the name that it is installed with.
# Not when cross-compiling: the programs would not run here.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
find_program(SEPPO_GZIP gzip REQUIRED)
set(manuals ${PROJECT_BINARY_DIR}/manuals)
file(MAKE_DIRECTORY ${manuals})

# Adds manuals/INSTALLED.1.gz, manuals/INSTALLED.bash and manuals/_INSTALLED.
function(seppo_manual program installed)
  set(command ${manuals}/${installed})
  add_custom_command(OUTPUT ${command}.1.gz ${command}.bash ${manuals}/_${installed}
                     COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${program}> ${command}
                     COMMAND ${command} --man > ${command}.1
                     COMMAND ${SEPPO_GZIP} -9nf ${command}.1
                     COMMAND ${command} --completion bash > ${command}.bash
                     COMMAND ${command} --completion zsh > ${manuals}/_${installed}
                     DEPENDS ${program} VERBATIM COMMENT "Manual of ${installed}")
  install(FILES ${command}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT Tools)
  install(FILES ${command}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${installed}
          COMPONENT Tools)
  install(FILES ${manuals}/_${installed} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT Tools)
endfunction()

foreach(program ${SEPPO_PROGRAMS})
  set(installed seppo-${program})
  if(program STREQUAL inspect)
    set(installed seppo)
  endif()
  seppo_manual(${program} ${installed})
  list(APPEND pages ${manuals}/${installed}.1.gz)
endforeach()
add_custom_target(manuals ALL DEPENDS ${pages})
