# bin/trireme, share/trireme/{inputs,jobscripts} and a modulefile that knows where they went.
include(GNUInstallDirs)
if(TARGET trireme)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY inputs jobscripts DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme USE_SOURCE_PERMISSIONS)
install(CODE "
  get_filename_component(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(root \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  set(version ${PROJECT_VERSION})
  set(module \"\${prefix}/${CMAKE_INSTALL_DATADIR}/modulefiles/trireme/${PROJECT_VERSION}\")
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/modulefile.in\" \"\${module}\" @ONLY)
  message(STATUS \"Installing: \${module}\")
")
