// A server whose answers are counted by itself: HTTP/1 and HTTP/2 with and without TLS.
//
//	main MODE PORT TLS_PORT CERTIFICATE KEY LOG
//
// MODE: plain; reset: each 50th request is reset; renew: every 300 ms the listeners are replaced by
// those of a new server and the old one ends gracefully (GOAWAY). The log has a line for each answer.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const everyReset, renewal = 50, 300 * time.Millisecond

var (
	lines   sync.Mutex
	log     *os.File
	counted atomic.Uint64
)

func note(text string) {
	lines.Lock()
	defer lines.Unlock()
	fmt.Fprintln(log, text)
}

func listen(port string) net.Listener {
	reuse := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) // SO_REUSEPORT
		})
	}}
	listener, err := reuse.Listen(context.Background(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	return listener
}

func reset(w http.ResponseWriter, r *http.Request) {
	note("reset")
	if hijacker, ok := w.(http.Hijacker); ok && r.ProtoMajor == 1 {
		connection, _, err := hijacker.Hijack()
		if err == nil {
			if tcp, ok := connection.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			connection.Close()
			return
		}
	}
	panic(http.ErrAbortHandler) // RST_STREAM
}

func start(mode, port, tlsPort string, certificate tls.Certificate) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if mode == "reset" && counted.Add(1)%everyReset == 0 {
				reset(w, r)
				return
			}
			note("200")
			w.Write([]byte("answer\n"))
		}),
	}
	go server.Serve(listen(port))
	go server.ServeTLS(listen(tlsPort), "", "")
	return server
}

func main() {
	mode, port, tlsPort := os.Args[1], os.Args[2], os.Args[3]
	certificate, err := tls.LoadX509KeyPair(os.Args[4], os.Args[5])
	if err != nil {
		panic(err)
	}
	log, err = os.OpenFile(os.Args[6], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	server := start(mode, port, tlsPort, certificate)
	for mode == "renew" {
		time.Sleep(renewal)
		old := server
		server = start(mode, port, tlsPort, certificate)
		go old.Shutdown(context.Background())
	}
	select {}
}
