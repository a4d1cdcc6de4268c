// Package cli is the command line of ds: it turns arguments and environment into
// calls of the server and of the tools around it. The struct tags in this
// package are the one table of all commands, flags, environment variables and
// their defaults.
//
// Nothing in it touches the process: [Run] gets all it uses and returns an exit
// code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitOK          = 0
	exitError       = 1 // the command could not do what it was asked, or found damage
	exitUsage       = 2 // the command line is wrong
	exitNotFound    = 3 // there is no such stream or subscription
	exitConflict    = 4 // it is there, but not in a state that allows this
	exitUnavailable = 5 // the server cannot be reached or is busy
	exitForbidden   = 6 // the server does not let this client do it
)

// Env is what a command may use of the process it runs in.
type Env struct {
	LookupEnv func(name string) (value string, set bool)
	Stdin     io.Reader
	Stdout    io.Writer // results
	Stderr    io.Writer // errors and logs

	// Reload asks a server to take its settings anew. Nil: nobody does.
	Reload <-chan struct{}

	args []string // the command line
}

// commands is the command line.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Serve streams over HTTP."`
	Check   checkCommand   `cmd:"" help:"Verify a data directory."`
	Inspect inspectCommand `cmd:"" help:"Show what is in a data directory."`
	Config  configCommand  `cmd:"" help:"Check and show settings."`
	Health  healthCommand  `cmd:"" help:"Ask whether a server is ready."`
	Streams streamsCommand `cmd:"" help:"List, show, count and delete the streams of a server, as its operator."`
	Backup  backupCommand  `cmd:"" help:"Back a server up while it runs."`
	Restore restoreCommand `cmd:"" help:"Make a data directory of a backup."`
	Tenants tenantsCommand `cmd:"" help:"Show what the tenants of a server use, and delete all of one."`
	Access  accessCommand  `cmd:"" help:"Make API keys and signed URLs."`
	Keys    keysCommand    `cmd:"" help:"Show or replace the keys that sign webhooks."`
	Bench   benchCommand   `cmd:"" help:"Load a server, measure it and verify what it kept."`

	Create createCommand `cmd:"" help:"Create a stream."`
	Append appendCommand `cmd:"" help:"Append to a stream."`
	Read   readCommand   `cmd:"" help:"Read what is in a stream."`
	Tail   tailCommand   `cmd:"" help:"Follow a stream."`
	Head   headCommand   `cmd:"" help:"Show type, tail and state of a stream."`
	Close  closeCommand  `cmd:"" help:"Close a stream."`
	Rm     rmCommand     `cmd:"" help:"Delete streams."`
	Ls     lsCommand     `cmd:"" help:"List streams."`
	Fork   forkCommand   `cmd:"" help:"Fork a stream."`
	Sub    subCommand    `cmd:"" help:"Manage subscriptions and work for them."`

	Completion completionCommand `cmd:"" help:"Write a script that completes commands in a shell."`
	Version    versionCommand    `cmd:"" help:"Show the version of ds."`
}

const description = "A server for Durable Streams: append-only, replayable streams over plain HTTP."

// Run does what args ask for. It returns when the command is done, or soon after
// ctx has ended.
func Run(ctx context.Context, args []string, env *Env) (exitCode int) {
	out := &output{Writer: env.Stdout}
	env = &Env{LookupEnv: env.LookupEnv, Stdin: env.Stdin, Stdout: out, Stderr: env.Stderr, Reload: env.Reload, args: args}
	set := newSettings(env.LookupEnv)
	helped := false
	parser, err := newParser(&commands{}, set,
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(int) { helped = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(env),
		kong.Bind(set),
	)
	if err != nil {
		return fail(env, exitError, err) // the table itself is wrong
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == askWord {
		if err := complete(env.Stdout, parser.Model, args[1:]); err != nil {
			return fail(env, exitError, err)
		}
		return exitOK
	}
	parsed, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err = set.explain(err); err != nil {
		return fail(env, exitUsage, err)
	}
	if err := parsed.Run(); err != nil {
		if out.gone && errors.Is(err, syscall.EPIPE) {
			return exitError // "ds inspect | head" has seen what it wanted
		}
		return fail(env, codeOf(err), err)
	}
	return exitOK
}

// newParser gives the parser of the command line.
func newParser(c *commands, set *settings, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(options,
		kong.Name("ds"),
		kong.Description(description),
		kong.Resolvers(set),
		kong.ValueFormatter(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ExplicitGroups(groups),
		kong.Vars{"stream": streamHelp},
	)...)
}

// output notes when its reader has gone.
type output struct {
	io.Writer
	gone bool
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.gone = true
	}
	return n, err
}

// usageError marks errors for which the command line is to blame.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// fail prints an error, one line for each of its parts.
func fail(env *Env, code int, err error) int {
	if errors.Is(err, errQuiet) {
		return code
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(env.Stderr, "ds: %s\n", strings.TrimRight(line, "\n"))
	}
	if code == exitUsage {
		fmt.Fprintln(env.Stderr, `Run "ds --help" or "ds <command> --help" for usage.`)
	}
	return code
}

// errQuiet ends a command with an exit code whose reason has been told already.
var errQuiet = errors.New("already told")
