# webserverd in a container: built in one image, run in another without a compiler.
#
#   docker compose up --build          serve www/ on 127.0.0.1:8080
#   docker compose exec web wsconsole  watch it
#   docker compose run --rm benchmark  put load on it
#
# The digest makes builds start from the same image; "docker buildx imagetools inspect debian:13-slim" prints that of the
# newest one: docker compose build --build-arg DEBIAN=debian:13-slim@sha256:DIGEST
#
# docker stop lets open requests finish; with --time 70, as in compose.yaml, also long ones.
ARG DEBIAN=debian:13-slim@sha256:d7e12182ce18b85b93007c1dedf31f2d29e01ccf3182cc4017c709b6259bc132
FROM $DEBIAN AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        build-essential cmake ninja-build pkg-config \
        libcrypt-dev libevent-dev libjansson-dev libseccomp-dev zlib1g-dev libbrotli-dev libzstd-dev libssl-dev libnghttp2-dev \
        libncurses-dev libcurl4-openssl-dev libsodium-dev systemtap-sdt-dev mandoc
WORKDIR /source
COPY . .
RUN cmake -G Ninja -B /build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_SYSCONFDIR=/etc \
        -DCMAKE_INSTALL_LOCALSTATEDIR=/var \
    && cmake --build /build \
    && DESTDIR=/installed cmake --install /build --strip

FROM $DEBIAN
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libcrypt1 libevent-core-2.1-7t64 libjansson4 libseccomp2 zlib1g libbrotli1 libzstd1 libssl3t64 libnghttp2-14 \
        libncursesw6 libtinfo6 ncurses-base libcurl4t64 libsodium23 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /run/webserverd --no-create-home webserverd \
    && install -d -o 10001 -g 10001 -m 0700 /run/webserverd
COPY --from=build /installed/ /
COPY etc/container.ini /etc/webserverd/webserver.ini
COPY --from=build /installed/usr/share/webserverd/www/ /srv/www/
USER 10001
ENV XDG_RUNTIME_DIR=/run TERM=xterm-256color
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["wsctl", "check"]
ENTRYPOINT ["webserverd", "-f", "/etc/webserverd/webserver.ini"]
