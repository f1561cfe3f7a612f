// The clients of the tests in Go:
//
//	client ask URL                                 requests with bodies; prints status and whether the connection stays
//	client fetch VERSION URL... [-- VERSION URL...]   fetches files by HTTP/VERSION; prints protocol, status and length
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"time"
)

var someReused bool // some request went over a connection that had carried one before

// The status, and whether the server closes the connection. On a busy machine Go gives up a connection that the server keeps:
// if it ends to read the response 50 ms before its other goroutine knows that the request is written. So only some requests
// must go over a connection that has carried one before.
func ask(client *http.Client, method, url string, body io.Reader, expect bool) string {
	trace := &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { someReused = someReused || i.Reused },
	}
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return err.Error()
	}
	if expect {
		request.Header.Set("Expect", "100-continue")
	}
	if body != nil && request.ContentLength == 0 {
		request.Trailer = http.Header{"X-Sum": {"1"}}
	}
	answer, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return err.Error()
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if answer.Close {
		return fmt.Sprint(answer.StatusCode, " closes")
	}
	return fmt.Sprint(answer.StatusCode, " stays")
}

type stream struct{ io.Reader }

func askAll(url string) {
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}, Timeout: time.Minute}
	big := strings.Repeat("x", 300000)
	fmt.Println(ask(client, "GET", url, nil, false))
	fmt.Println(ask(client, "POST", url, strings.NewReader(big), false))
	fmt.Println(ask(client, "POST", url, stream{strings.NewReader(big)}, false))
	fmt.Println(ask(client, "GET", url, strings.NewReader(big), true))
	fmt.Println(ask(client, "GET", url, stream{strings.NewReader(big)}, true))
	fmt.Println(ask(client, "HEAD", url, nil, false))
	fmt.Println(ask(client, "POST", url, strings.NewReader(big), true))
	fmt.Println(ask(client, "GET", url, nil, false))
	fmt.Println("some reused:", someReused)
}

// The first file alone, then all others at once.
func fetchAll(version string, urls []string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: version == "2"}
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	fetch := func(url string) {
		defer all.Done()
		response, err := client.Get(url)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		fmt.Println(response.Proto, response.StatusCode, len(body))
	}
	for i, url := range urls {
		all.Add(1)
		if i == 0 {
			fetch(url)
		} else {
			go fetch(url)
		}
	}
	all.Wait()
}

func main() {
	if os.Args[1] == "ask" {
		askAll(os.Args[2])
		return
	}
	start := 2
	for i := start; i <= len(os.Args); i++ {
		if i == len(os.Args) || os.Args[i] == "--" {
			fetchAll(os.Args[start], os.Args[start+1:i])
			fmt.Println("--")
			start = i + 1
		}
	}
}
