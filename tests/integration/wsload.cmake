# Tests of wsload with a server in the test that counts requests and can misbehave.
function(add_wsload_program name)
    add_executable(test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
                   ${CMAKE_CURRENT_LIST_DIR}/wsload_fixture.c)
    target_link_libraries(test_${name} PRIVATE testserver)
    target_compile_definitions(test_${name} PRIVATE WSLOAD_PROGRAM="$<TARGET_FILE:wsload>")
    add_dependencies(test_${name} wsload)
endfunction()

# integration.NAME runs PROGRAM with the remaining arguments, in parts as in add_integration_test().
function(add_wsload_test name parts program)
    foreach(part RANGE 1 ${parts})
        set(test integration.${name})
        if(parts GREATER 1)
            string(APPEND test .${part})
        endif()
        add_test(NAME ${test} COMMAND ${program} ${ARGN})
        set_tests_properties(${test} PROPERTIES LABELS integration TIMEOUT 300
                             ENVIRONMENT TEST_PART=${part}/${parts})
    endforeach()
endfunction()

# With each engine.
foreach(program "wsload;1" "wsload_requests;1" "wsload_load;2")
    list(GET program 0 name)
    list(GET program 1 parts)
    add_wsload_program(${name})
    if(SANITIZER STREQUAL "thread" AND name STREQUAL "wsload_requests") # which are the same with any number of threads
        set_target_properties(test_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        continue()
    endif()
    foreach(engine curl raw)
        add_wsload_test(${name}_${engine} ${parts} ${CMAKE_COMMAND} -E env WSLOAD_ENGINE=${engine} $<TARGET_FILE:test_${name}>)
    endforeach()
endforeach()

foreach(program "wsload_sweep;2" "wsload_truth;3")
    list(GET program 0 name)
    list(GET program 1 parts)
    add_wsload_program(${name})
    add_wsload_test(${name} ${parts} test_${name})
endforeach()

# The engines, the sweep and the server have the threads; under ThreadSanitizer only their own tests run. AddressSanitizer finds no
# more in all experiments than in a sixth of them.
if(NOT SANITIZER STREQUAL "thread")
    add_wsload_program(wsload_lab)
endif()
if(NOT SANITIZER)
    add_wsload_test(wsload_lab 8 test_wsload_lab)
elseif(SANITIZER STREQUAL "address")
    add_wsload_test(wsload_lab 1 test_wsload_lab)
    set_tests_properties(integration.wsload_lab PROPERTIES ENVIRONMENT TEST_PART=3/6)
endif()

# wsload over TLS, HTTP/2 and proxies, with bodies and logs.
if(Python3_FOUND AND NOT SANITIZER STREQUAL "thread")
    add_wsload_test(wsload_way 2 ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/wsload/run.py
                    $<TARGET_FILE:wsload>)
    add_wsload_test(wsload_lists 1 ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/wsload/lists.py
                    $<TARGET_FILE:wsload>)
    add_wsload_test(wsload_scenarios 1 ${Python3_EXECUTABLE} -B
                    ${CMAKE_CURRENT_LIST_DIR}/wsload/scenarios.py $<TARGET_FILE:wsload>)
endif()
if(Python3_FOUND AND NOT SANITIZER STREQUAL "address")
    add_wsload_test(wsload_protocols 1 ${Python3_EXECUTABLE} -B
                    ${CMAKE_CURRENT_LIST_DIR}/wsload/protocols.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endif()
if(Python3_FOUND AND NOT SANITIZER) # the manual, and reports that other tests also make
    add_wsload_test(wsload_json 1 ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/wsload/json_page.py
                    ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_BINARY_DIR}/man/wsload-json.5)
endif()

# They stop their servers themselves, so that repeat.py must not.
foreach(test wsload_truth.1 wsload_truth.2 wsload_truth.3 wsload_protocols)
    if(TEST integration.${test})
        set_property(TEST integration.${test} APPEND PROPERTY LABELS pauses)
    endif()
endforeach()
