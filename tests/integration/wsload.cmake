# Tests of wsload with a server in the test that counts requests and can misbehave.
function(add_wsload_test name processors)
    add_executable(test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
                   ${CMAKE_CURRENT_LIST_DIR}/wsload_fixture.c)
    target_link_libraries(test_${name} PRIVATE testserver)
    target_compile_definitions(test_${name} PRIVATE WSLOAD_PROGRAM="$<TARGET_FILE:wsload>")
    add_dependencies(test_${name} wsload)
    add_test(NAME integration.${name} COMMAND test_${name})
    set_tests_properties(integration.${name} PROPERTIES LABELS integration TIMEOUT 300
                         PROCESSORS ${processors})
endfunction()

add_wsload_test(wsload 1)
add_wsload_test(wsload_requests 1)
add_wsload_test(wsload_load 1)
add_wsload_test(wsload_truth 4) # measures time: nothing else may run beside it
add_wsload_test(wsload_lab 2)
set_tests_properties(integration.wsload_lab PROPERTIES TIMEOUT 600)
add_wsload_test(wsload_sweep 2)

# wsload over TLS, HTTP/2 and proxies, with bodies and logs.
if(Python3_FOUND)
    add_test(NAME integration.wsload_way
             COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/wsload/run.py $<TARGET_FILE:wsload>)
    set_tests_properties(integration.wsload_way PROPERTIES LABELS integration TIMEOUT 300 PROCESSORS 1)
endif()
