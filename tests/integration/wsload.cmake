# wsload against a server of the test's own, which counts what it is sent and can misbehave.
add_executable(test_wsload ${CMAKE_CURRENT_LIST_DIR}/test_wsload.c)
target_link_libraries(test_wsload PRIVATE wscommon PkgConfig::CMOCKA PkgConfig::JANSSON)
target_compile_definitions(test_wsload PRIVATE WSLOAD_PROGRAM="$<TARGET_FILE:wsload>")
add_dependencies(test_wsload wsload)
add_test(NAME integration.wsload COMMAND test_wsload)
set_tests_properties(integration.wsload PROPERTIES LABELS integration TIMEOUT 300)
