package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"durablestreams/internal/cli"
	"durablestreams/internal/dstest"
	"durablestreams/internal/dstest/process"
)

// tests runs the tests and removes the binary that some of them use.
type tests struct{ *testing.M }

func (t tests) Run() int { return process.Main(t.M) }

// TestMain makes this test binary the "ds" of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"ds": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(cli.Run(ctx, os.Args[1:], &cli.Env{LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}})
}

// TestScripts runs testdata/script. Beyond the usual commands a script has
//
//	serve NAME [VARIABLE=VALUE...] [FLAG...]  start ds serve; $URL is that of its
//	                                          streams, $ADDR its address, $ADMIN
//	                                          the URL for operators, stdout what
//	                                          it says
//	finish NAME                               SIGTERM; it must end with code 0;
//	                                          stderr is its log
//	crash NAME                                kill -9
//	again NAME                                start it as before, at the same address
//	awaitfile FILE                            wait until there is such a file
//	http STATUS METHOD URL [HEADER...] [BODY] one request; stdout is the answer
//	code CODE PROGRAM [ARGUMENT...]           run a program that ends with CODE
//	damage FILE OFFSET                        overwrite 16 bytes of a file
func TestScripts(t *testing.T) { testscript.Run(t, scripts("testdata/script")) }

// TestClientScripts runs testdata/client in the same way, with the binary: each of
// them runs many commands, and this one starts slowly with the race detector.
func TestClientScripts(t *testing.T) {
	p := scripts("testdata/client")
	setup := p.Setup
	dir := filepath.Dir(process.Build(t))
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", dir+string(filepath.ListSeparator)+e.Getenv("PATH"))
		return setup(e)
	}
	testscript.Run(t, p)
}

func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serve, "finish": finish, "crash": crash, "again": again, "awaitfile": awaitFile, "http": request, "code": code, "damage": damage,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("DS_ADMIN_LISTEN", "127.0.0.1:0")
			e.Values[serversKey{}] = map[string]*process.Server{}
			e.Values[commandsKey{}] = map[string]process.Command{}
			return nil
		},
	}
}

type (
	serversKey  struct{}
	commandsKey struct{}
)

func servers(ts *testscript.TestScript) map[string]*process.Server {
	return ts.Value(serversKey{}).(map[string]*process.Server)
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve NAME [VARIABLE=VALUE...] [FLAG...]")
	}
	binary, err := exec.LookPath("ds")
	ts.Check(err)
	name, args := args[0], args[1:]
	c := process.Command{Binary: binary, Dir: ts.MkAbs(".")}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		c.Env, args = append(c.Env, args[0]), args[1:]
	}
	c.Args = args
	launch(ts, name, c)
}

// launch starts a server and waits until it serves.
func launch(ts *testscript.TestScript, name string, c process.Command) {
	s, stdout, err := process.Launch(c)
	ts.Check(err)
	ts.Defer(s.Kill)
	said, err := s.Await(stdout)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), said)
	u, err := url.Parse(s.Streams)
	ts.Check(err)
	c.Listen = u.Host
	servers(ts)[name] = s
	ts.Value(commandsKey{}).(map[string]process.Command)[name] = c
	ts.Setenv("URL", s.Streams)
	ts.Setenv("ADMIN", s.Admin)
	ts.Setenv("ADDR", u.Host)
}

func again(ts *testscript.TestScript, neg bool, args []string) {
	launch(ts, args[0], ts.Value(commandsKey{}).(map[string]process.Command)[args[0]])
}

func awaitFile(ts *testscript.TestScript, neg bool, args []string) {
	for range 1000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		dstest.Pause(10 * time.Millisecond)
	}
	ts.Fatalf("there is no %s", args[0])
}

func finish(ts *testscript.TestScript, neg bool, args []string) {
	s := servers(ts)[args[0]]
	err := s.Stop(20 * time.Second)
	fmt.Fprintln(ts.Stderr(), s.Stderr)
	if err != nil || neg {
		ts.Fatalf("finish %s: %v\n%s", args[0], err, s.Stderr)
	}
}

func crash(ts *testscript.TestScript, neg bool, args []string) { servers(ts)[args[0]].Kill() }

func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL [HEADER...] [BODY]")
	}
	status, method, target, args := args[0], args[1], args[2], args[3:]
	isBody := func(s string) bool { name, _, ok := strings.Cut(s, ": "); return !ok || strings.Contains(name, " ") }
	var body string
	if i := slices.IndexFunc(args, isBody); i >= 0 {
		args, body = args[:i], args[i]
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	ts.Check(err)
	for _, h := range args {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	res, err := client.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", res.Status)
	ts.Check(res.Header.Write(ts.Stdout()))
	fmt.Fprintf(ts.Stdout(), "\n%s\n", text)
	if strconv.Itoa(res.StatusCode) != status {
		ts.Fatalf("%s %s: %s, want %s\n%s", method, target, res.Status, status, text)
	}
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && args[0] == strconv.Itoa(exit.ExitCode()) {
		return
	}
	ts.Fatalf("%s: %v, want exit code %s", strings.Join(args[1:], " "), err, args[0])
}

func damage(ts *testscript.TestScript, neg bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	_, err = f.WriteAt([]byte("~~ overwritten ~"), offset)
	ts.Check(err)
}
