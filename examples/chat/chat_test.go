package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/client"
	"durablestreams/internal/dstest/docs"
	"durablestreams/internal/dstest/node"
)

// limit is for what takes milliseconds, on a busy machine.
const limit = 20 * time.Second

func paced(pace time.Duration) func(context.Context, string) words {
	return func(ctx context.Context, prompt string) words { return answer(ctx, prompt, pace) }
}

// program is one run.
type program struct {
	page    string // URL, without a slash at the end
	streams *client.Client
	stop    func()
}

// start runs the program until stop is called or the test ends.
func start(t *testing.T, o options) *program {
	t.Helper()
	o.listen = "127.0.0.1:0"
	if o.model == nil {
		o.model = paced(0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, &o, in)
		_ = in.Close()
		ended <- err
	}()
	said := bufio.NewScanner(out)
	var lines []string
	for len(lines) < 2 && said.Scan() {
		lines = append(lines, strings.Fields(said.Text())[1])
	}
	if len(lines) < 2 {
		t.Fatal(<-ended)
	}
	c, err := client.New(lines[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{page: strings.TrimSuffix(lines[0], "/"), streams: c}
	p.stop = func() {
		if cancel == nil {
			return
		}
		cancel()
		cancel = nil
		if err := <-ended; err != nil {
			t.Errorf("the program ends with %v", err)
		}
	}
	t.Cleanup(func() { p.stop() })
	return p
}

// do makes a request and gives the status.
func (p *program) do(t *testing.T, method, path, body string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.page+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// asked asks in a chat and gives the stream of the answer.
func (p *program) asked(t *testing.T, chat, prompt string) string {
	t.Helper()
	if status := p.do(t, http.MethodPut, "/chats/"+chat, ""); status != http.StatusNoContent {
		t.Fatal(status)
	}
	if status := p.do(t, http.MethodPost, "/chats/"+chat, `{"prompt":"`+prompt+`"}`); status != http.StatusNoContent {
		t.Fatal(status)
	}
	var last message
	for batch, err := range client.ReadJSON[message](t.Context(), p.streams.Stream(chats+chat), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch.Messages {
			last = m
		}
	}
	if last.Prompt != prompt {
		t.Fatalf("the chat ends with %q", last)
	}
	return last.Answer
}

// follow reads an answer to its end, and calls seen with what there is so far.
func (p *program) follow(t *testing.T, answer string, seen func(string)) (all string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for batch, err := range p.streams.Stream(answer).Read(ctx, &client.ReadOptions{Live: client.SSE}) {
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all += string(batch.Data)
		if seen != nil {
			seen(all)
		}
	}
	return all
}

func whole(prompt string) string {
	return strings.Join(collect(answer(context.Background(), prompt, 0)), "")
}

func collect(w words) (all []string) {
	for word := range w {
		all = append(all, word)
	}
	return all
}

func TestAnswer(t *testing.T) {
	p := start(t, options{data: t.TempDir()})
	if got := p.follow(t, p.asked(t, "a", "how are you"), nil); got != whole("how are you") {
		t.Errorf("the answer is %q", got)
	}
}

// TestStop closes an answer that would take an hour, and the model falls silent.
func TestStop(t *testing.T) {
	silent := make(chan int, 1)
	streams := start(t, options{data: t.TempDir()}).streams
	c := &chat{streams: streams, model: func(ctx context.Context, _ string) words {
		return func(yield func(string) bool) {
			said := 0
			for yield("word ") {
				said++
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
			silent <- said
		}
	}}
	if err := c.open(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := c.ask(t.Context(), "b", "go on"); err != nil {
		t.Fatal(err)
	}
	p := &program{streams: streams}
	var path string
	for batch, err := range client.ReadJSON[message](t.Context(), streams.Stream(chats+"b"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		path = batch.Messages[0].Answer
	}
	text := p.follow(t, path, func(text string) {
		if len(text) > 20 {
			if err := c.stop(t.Context(), strings.TrimPrefix(path, answers)); err != nil {
				t.Error(err)
			}
		}
	})
	select {
	case said := <-silent:
		if written := strings.Count(text, "word "); written < 4 || said < written {
			t.Errorf("%d words said, %d written", said, written)
		}
	case <-time.After(limit):
		t.Fatal("the model goes on")
	}
	c.answers.Wait()
}

// TestEnds: an answer is closed when the program stops, and at the next start when the
// program had no time for that.
func TestEnds(t *testing.T) {
	data := t.TempDir()
	p := start(t, options{data: data, model: paced(20 * time.Millisecond)})
	answer := p.asked(t, "c", "long")
	ctx := t.Context()
	leftover := p.streams.Stream("answers/leftover")
	if _, _, err := leftover.Create(ctx, &client.CreateOptions{ContentType: "text/plain", Data: []byte("half")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppendJSON(ctx, p.streams.Stream(running), "answers/leftover", "answers/expired"); err != nil {
		t.Fatal(err)
	}
	for batch, err := range p.streams.Stream(answer).Read(ctx, &client.ReadOptions{Live: client.LongPoll}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Data) > 0 {
			break
		}
	}
	p.stop()
	p = start(t, options{data: data})
	if got := p.follow(t, answer, nil); got == interrupted || !strings.HasSuffix(got, interrupted) || !strings.HasPrefix(whole("long"), strings.TrimSuffix(got, interrupted)) {
		t.Errorf("the answer that was stopped is %q", got)
	}
	if got := p.follow(t, "answers/leftover", nil); got != "half"+interrupted {
		t.Errorf("the answer that was left is %q", got)
	}
	for batch, err := range client.ReadJSON[string](ctx, p.streams.Stream(running), nil) {
		if err != nil || len(batch.Messages) > 0 {
			t.Errorf("the list has %q, %v", batch.Messages, err)
		}
	}
}

// TestRoutes: pages read, and nobody but the program writes.
func TestRoutes(t *testing.T) {
	p := start(t, options{data: t.TempDir()})
	answer := p.asked(t, "d", "hi")
	p.follow(t, answer, nil)
	for _, r := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{"GET", "/", "", nil, 200},
		{"GET", "/chat.js", "", nil, 200},
		{"GET", "/nothing", "", nil, 404},
		{"GET", "/streams/chats/d", "", nil, 200},
		{"HEAD", "/streams/" + answer, "", nil, 200},
		{"GET", "/streams/answers/none", "", nil, 404},
		{"GET", "/streams/running", "", nil, 404},
		{"GET", "/streams/chats/..%2Frunning", "", nil, 400},
		{"POST", "/streams/chats/d", "{}", []string{"Content-Type", "application/json"}, 405},
		{"DELETE", "/streams/chats/d", "", nil, 405},
		{"POST", "/chats/d", "", nil, 400},
		{"POST", "/chats/d", `{"prompt":" "}`, nil, 400},
		{"POST", "/chats/d", `{"prompt":"` + strings.Repeat("x", maxPrompt) + `"}`, nil, 400},
		{"POST", "/chats/none", `{"prompt":"x"}`, nil, 404},
		{"POST", "/chats/d", `{"prompt":"x"}`, []string{"Origin", "https://elsewhere.example"}, 403},
		{"POST", "/answers/none/stop", "", nil, 404},
		{"POST", "/" + answer + "/stop", "", nil, 204}, // it is over, and that is fine
	} {
		if got := p.do(t, r.method, r.path, r.body, r.headers...); got != r.want {
			t.Errorf("%s %s %.40s: %d, want %d", r.method, r.path, r.body, got, r.want)
		}
	}
}

// browserTests is what chat.test.mjs holds.
const browserTests = "6"

// TestBrowser chats in a headless Chromium, which the tests of the page bring. With
// DS_SHOTS set to a folder it leaves pictures there.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a browser")
	}
	dir := node.Beside(t, "../../internal/web/browser", "chat.test.mjs")
	// The model stops in the middle of an answer until the script lets it go on, and the
	// pages' connections end all the time.
	release := make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case release <- struct{}{}:
		case <-r.Context().Done():
		}
	}))
	defer gate.Close()
	p := start(t, options{data: t.TempDir(), own: &durablestreams.Options{SSEMaxAge: 300 * time.Millisecond}, model: func(ctx context.Context, prompt string) words {
		return func(yield func(string) bool) {
			said := 0
			for word := range answer(ctx, prompt, 10*time.Millisecond) {
				if said++; said == 60 {
					select {
					case <-release:
					case <-ctx.Done():
						return
					}
				}
				if !yield(word) {
					return
				}
			}
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	env := []string{"PAGE=" + p.page + "/", "GATE=" + gate.URL, "ANSWER=" + whole("What is a <b>stream</b>?"), "SHOTS=" + os.Getenv("DS_SHOTS")}
	out, err := node.Run(ctx, dir, env, "node", "--test", "--test-force-exit", "--test-reporter=tap", "chat.test.mjs")
	passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindStringSubmatch(out)
	if err != nil || passed == nil || passed[1] != browserTests {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCommand runs the command that README.md begins with, and looks at the page.
func TestCommand(t *testing.T) {
	command := strings.Fields(docs.Read(t, "README.md")[0].Text)
	if strings.Join(command, " ") != "go run ./examples/chat" {
		t.Fatalf("README.md begins with %q", command)
	}
	cmd := exec.Command(command[0], append(command[1:], "-listen", "127.0.0.1:0", "-data", t.TempDir())...)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "chat"); ok {
			res, err := http.Get(strings.TrimSpace(url))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			page, err := io.ReadAll(res.Body)
			if err != nil || !strings.Contains(string(page), "<title>Chat</title>") {
				t.Errorf("%s %v\n%s", res.Status, err, page)
			}
			return
		}
	}
	t.Fatal("the program ends without an address")
}
