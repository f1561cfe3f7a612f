# What is installed besides the programs, and the paths in it.
#
# Below the prefix, the configuration names its directories relative to itself: the prefix may still be
# chosen by cmake --install --prefix, and an unprivileged user can install and run all of it.
# With prefix /usr, or with absolute directories (-DCMAKE_INSTALL_SYSCONFDIR=/etc), the paths are absolute.
if(CMAKE_INSTALL_PREFIX MATCHES "^/usr/?$")
    set(CMAKE_INSTALL_SYSCONFDIR ${CMAKE_INSTALL_FULL_SYSCONFDIR})
    set(CMAKE_INSTALL_LOCALSTATEDIR ${CMAKE_INSTALL_FULL_LOCALSTATEDIR})
endif()
set(site_directory ${CMAKE_INSTALL_DATADIR}/webserverd/www)
set(config_directory ${CMAKE_INSTALL_SYSCONFDIR}/webserverd)
set(log_directory ${CMAKE_INSTALL_LOCALSTATEDIR}/log/webserverd)

# in_config RESULT DIRECTORY: DIRECTORY as the configuration file writes it.
function(in_config result directory)
    if(IS_ABSOLUTE ${config_directory} OR IS_ABSOLUTE ${directory})
        cmake_path(ABSOLUTE_PATH directory BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
    else()
        cmake_path(RELATIVE_PATH directory BASE_DIRECTORY ${config_directory})
    endif()
    set(${result} ${directory} PARENT_SCOPE)
endfunction()

in_config(root ${site_directory})
in_config(logs ${log_directory})
file(READ etc/webserver.ini ini)
string(REPLACE "root = ../www" "root = ${root}" ini "${ini}")
string(REPLACE "access = ../access.log" "access = ${logs}/access.log" ini "${ini}")
file(CONFIGURE OUTPUT webserver.ini CONTENT "${ini}" @ONLY)

install(DIRECTORY www/ DESTINATION ${site_directory} PATTERN manual EXCLUDE) # see man/CMakeLists.txt
install(FILES ${CMAKE_BINARY_DIR}/webserver.ini DESTINATION ${config_directory})
install(DIRECTORY DESTINATION ${log_directory})
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES etc/prometheus/webserverd.rules.yml etc/grafana/webserverd.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/webserverd/monitoring)
install(FILES etc/haproxy.cfg etc/kubernetes/webserverd.yaml etc/kubernetes/wsload.yaml
              etc/shop.scenarios
        DESTINATION ${CMAKE_INSTALL_DATADIR}/webserverd/examples)
install(FILES etc/webserverd.socket etc/webserverd-https.socket DESTINATION lib/systemd/system)
install(FILES include/wsboard.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(CONFIGURE OUTPUT wsboard.pc @ONLY CONTENT "Name: wsboard
Description: show what a server does in wsconsole
Version: 1.0
Cflags: -I${CMAKE_INSTALL_FULL_INCLUDEDIR} -pthread
Libs: -pthread
")
install(FILES ${CMAKE_BINARY_DIR}/wsboard.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/webserverd/examples/wsboard
        PATTERN CMakeLists.txt EXCLUDE)
install(FILES etc/board/read.py DESTINATION ${CMAKE_INSTALL_DATADIR}/webserverd/examples/wsboard)

# The unit, logrotate's file and the scripts for bpftrace need absolute paths, so they are written when the prefix is known.
install(CODE "
    set(sbin ${CMAKE_INSTALL_SBINDIR})
    set(bin ${CMAKE_INSTALL_BINDIR})
    set(config ${config_directory})
    set(logs ${log_directory})
    set(rotation ${CMAKE_INSTALL_SYSCONFDIR}/logrotate.d/webserverd)
    set(unit lib/systemd/system/webserverd.service)
    foreach(path IN ITEMS sbin bin config logs rotation unit)
        cmake_path(ABSOLUTE_PATH \${path} BASE_DIRECTORY \${CMAKE_INSTALL_PREFIX})
    endforeach()
    message(STATUS \"Installing: \$ENV{DESTDIR}\${unit}\")
    configure_file(\"${CMAKE_SOURCE_DIR}/etc/webserverd.service.in\" \"\$ENV{DESTDIR}\${unit}\" @ONLY
                   FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    message(STATUS \"Installing: \$ENV{DESTDIR}\${rotation}\")
    file(READ \"${CMAKE_SOURCE_DIR}/etc/logrotate.d/webserverd\" text)
    string(REPLACE /var/log/webserverd \${logs} text \"\${text}\")
    file(CONFIGURE OUTPUT \"\$ENV{DESTDIR}\${rotation}\" CONTENT \"\${text}\" @ONLY)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \${unit} \${rotation})
    file(GLOB scripts \"${CMAKE_SOURCE_DIR}/etc/bpftrace/*.bt\")
    foreach(script IN LISTS scripts)
        get_filename_component(name \"\${script}\" NAME)
        set(target ${CMAKE_INSTALL_DATADIR}/webserverd/bpftrace/\${name})
        cmake_path(ABSOLUTE_PATH target BASE_DIRECTORY \${CMAKE_INSTALL_PREFIX})
        message(STATUS \"Installing: \$ENV{DESTDIR}\${target}\")
        file(READ \"\${script}\" text)
        string(REPLACE /usr/sbin/ \${sbin}/ text \"\${text}\")
        file(WRITE \"\$ENV{DESTDIR}\${target}\" \"\${text}\")
        list(APPEND CMAKE_INSTALL_MANIFEST_FILES \${target})
    endforeach()
")
