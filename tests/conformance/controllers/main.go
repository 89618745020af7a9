//go:debug randseednop=0

// Command controllers runs real Kubernetes controllers on JSON scenarios in virtual time.
//
//	controllers hpa     < scenarios.jsonl > timelines.jsonl
//	controllers cluster < scenarios.jsonl > timelines.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"k8s.io/klog/v2"

	"stowplan.io/oracle/controllers/internal/bubble"
	"stowplan.io/oracle/controllers/internal/clustersim"
	"stowplan.io/oracle/controllers/internal/hpasim"
)

func main() {
	// One thread: with it the rare same-instant races left are practically gone too.
	runtime.GOMAXPROCS(1)
	klog.SetOutput(os.Stderr)
	klog.LogToStderr(false)
	if len(os.Args) != 2 {
		usage()
	}
	switch os.Args[1] {
	case "hpa":
		run(hpasim.Run)
	case "cluster":
		run(clustersim.Run)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controllers hpa|cluster < scenarios.jsonl > timelines.jsonl")
	os.Exit(2)
}

// run feeds the lines of stdin to f, one bubble each, prints the results and exits.
func run[S, R any](f func(*S) *R) {
	var lines [][]byte
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			lines = append(lines, line)
		}
		if err != nil {
			break
		}
	}
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	code := 0
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		code = 1
	}
	bubble.Main(lines, func(line []byte) {
		sc := new(S)
		if err := json.Unmarshal(line, sc); err != nil {
			fail(err)
		} else if err := enc.Encode(f(sc)); err != nil {
			fail(err)
		}
	}, func() int {
		if err := out.Flush(); err != nil {
			fail(err)
		}
		return code
	})
}
