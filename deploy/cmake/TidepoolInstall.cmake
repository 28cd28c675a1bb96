# Components of `cmake --install` and `cpack`: service (kvd, kvctl, the Python package, documents and kits of sites),
# library (libtidepool.so), sdk (headers, .proto files, examples), module (the modulefile, which no package has).

# tidepool_install_documents(PROGRAM MANUAL BASH ZSH): a program's manual page and completion.
function(tidepool_install_documents program manual bash zsh)
  install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT service)
  install(FILES ${bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME ${program} COMPONENT service)
  # zsh itself looks into the first one, Debian's for what packages bring into the second one.
  foreach(folder site-functions vendor-completions)
    install(FILES ${zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} COMPONENT service)
  endforeach()
endfunction()
