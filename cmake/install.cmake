# bin/trireme, lib/trireme/libtrireme_cuda.so, share/trireme/{inputs,jobscripts}, documents, manual pages and a modulefile that knows where they went.
include(GNUInstallDirs)
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET cuda_library)  # where kernels/cuda/library.cpp looks for it
  install(TARGETS cuda_library LIBRARY DESTINATION lib/trireme)
endif()
install(DIRECTORY inputs jobscripts DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme USE_SOURCE_PERMISSIONS)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The pages come from the installed program; a build for another kind of CPU cannot start here and goes without.
install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  execute_process(COMMAND \"\${prefix}/${CMAKE_INSTALL_BINDIR}/trireme\" manual \"\${prefix}/${CMAKE_INSTALL_MANDIR}/man1\"
    RESULT_VARIABLE failed)
  if(failed)
    message(WARNING \"no manual pages: the installed trireme does not start on this machine\")
  else()
    message(STATUS \"Installing: \${prefix}/${CMAKE_INSTALL_MANDIR}/man1/trireme*.1\")
  endif()
")
install(CODE "
  get_filename_component(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(root \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  set(version ${PROJECT_VERSION})
  set(module \"\${prefix}/${CMAKE_INSTALL_DATADIR}/modulefiles/trireme/${PROJECT_VERSION}\")
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/modulefile.in\" \"\${module}\" @ONLY)
  message(STATUS \"Installing: \${module}\")
")
