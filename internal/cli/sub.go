package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"durablestreams/client"
)

// subCommand is "ds sub".
type subCommand struct {
	Create  subCreateCommand  `cmd:"" help:"Create a subscription."`
	Show    subShowCommand    `cmd:"" help:"Show a subscription."`
	Rm      subRmCommand      `cmd:"" help:"Delete a subscription."`
	Add     subAddCommand     `cmd:"" help:"Link streams to a subscription."`
	Remove  subRemoveCommand  `cmd:"" help:"Take links away again."`
	Claim   subClaimCommand   `cmd:"" help:"Claim a subscription for a worker."`
	Ack     subAckCommand     `cmd:"" help:"Report what a claim has dealt with."`
	Release subReleaseCommand `cmd:"" help:"Give a claim back without an ack."`
	Keys    subKeysCommand    `cmd:"" help:"Show the public keys that a server signs webhooks with."`
}

// subscription is the argument of all commands about one.
type subscription struct {
	remote
	ID string `arg:"" help:"Id of the subscription."`
}

func (s *subscription) open(env *Env) (*client.Subscription, error) {
	c, err := s.client(env, s.URL, false)
	if err != nil {
		return nil, err
	}
	return c.Subscription(s.ID), nil
}

// subCreateCommand is "ds sub create".
type subCreateCommand struct {
	subscription
	Pattern     string        `placeholder:"GLOB" help:"Paths of streams: * stands for a segment, ** for any number of them."`
	Stream      []string      `placeholder:"PATH" help:"Paths of streams besides."`
	Webhook     string        `placeholder:"URL" help:"Is called when there is something new."`
	WakeStream  string        `placeholder:"PATH" help:"Stream that gets an event when there is something new, for workers that claim."`
	Lease       time.Duration `placeholder:"30s" help:"How long a worker may be silent. Default: the server's, 30 s."`
	Description string        `placeholder:"TEXT" help:"A text for people."`
	JSON        bool          `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (subCreateCommand) Help() string {
	return `Creates a subscription with either --webhook or --wake-stream. If it is there with the same configuration,
nothing is changed; with another one the exit code is 4.

Examples:

    ds sub create mail --pattern 'users/*' --webhook https://worker.example/hooks
    ds create wake -t application/json && ds sub create jobs --pattern 'jobs/**' --wake-stream wake --lease 1m`
}

// Run creates.
func (c *subCreateCommand) Run(ctx context.Context, env *Env) error {
	switch {
	case (c.Webhook == "") == (c.WakeStream == ""):
		return usageError{errors.New("give either --webhook or --wake-stream")}
	case c.Pattern == "" && len(c.Stream) == 0:
		return usageError{errors.New("give --pattern, --stream or both")}
	}
	s, err := c.open(env)
	if err != nil {
		return err
	}
	info, created, err := s.Create(ctx, &client.SubscriptionConfig{Pattern: c.Pattern, Streams: c.Stream, WebhookURL: c.Webhook,
		WakeStream: c.WakeStream, Lease: c.Lease, Description: c.Description})
	if err != nil {
		return err
	}
	return printSubscription(env, c.JSON, info, &created)
}

// subShowCommand is "ds sub show".
type subShowCommand struct {
	subscription
	JSON bool `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (subShowCommand) Help() string {
	return `Shows how a subscription is set up, and how far each of its streams has been acked.

Examples:

    ds sub show mail
    ds sub show mail --json | jq .status`
}

// Run shows.
func (c *subShowCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.open(env)
	if err != nil {
		return err
	}
	info, err := s.Get(ctx)
	if err != nil {
		return err
	}
	return printSubscription(env, c.JSON, info, nil)
}

func printSubscription(env *Env, asJSON bool, info client.SubscriptionInfo, created *bool) error {
	if asJSON {
		return writeJSON(env.Stdout, struct {
			client.SubscriptionInfo
			Created *bool `json:"created,omitempty"`
		}{info, created})
	}
	target := "wake stream " + info.WakeStream
	if info.Webhook != nil {
		target = "webhook " + info.Webhook.URL
	}
	rows := [][2]string{{"id", info.ID}, {"wakes", target}, {"status", info.Status}, {"lease", (time.Duration(info.LeaseMS) * time.Millisecond).String()}}
	if info.Pattern != "" {
		rows = append(rows, [2]string{"pattern", info.Pattern})
	}
	if info.Description != "" {
		rows = append(rows, [2]string{"about", info.Description})
	}
	if created != nil && !*created {
		rows = append(rows, [2]string{"", "it was there already"})
	}
	return printRows(env, append(rows, cursors(info.Streams)...))
}

// cursors are the rows of linked streams.
func cursors(streams []client.SubscribedStream) (rows [][2]string) {
	for _, s := range streams {
		text := s.Path + "  acked " + string(s.Acked)
		if s.HasPending {
			text += ", more to do"
		}
		rows = append(rows, [2]string{s.LinkType, text})
	}
	return rows
}

// subRmCommand is "ds sub rm".
type subRmCommand struct{ subscription }

// Help is the text below the summary.
func (subRmCommand) Help() string {
	return `Deletes a subscription; that there is none is no error. Streams stay.

Example:

    ds sub rm mail`
}

// Run deletes.
func (c *subRmCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.open(env)
	if err != nil {
		return err
	}
	return s.Delete(ctx)
}

// subAddCommand is "ds sub add".
type subAddCommand struct {
	subscription
	Streams []string `arg:"" name:"path" help:"Paths of streams."`
}

// Help is the text below the summary.
func (subAddCommand) Help() string {
	return `Links streams explicitly, from their present tails on. Streams that are linked already stay as they are.

Example:

    ds sub add mail users/ann users/bob`
}

// Run links.
func (c *subAddCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.open(env)
	if err != nil {
		return err
	}
	return s.Add(ctx, c.Streams...)
}

// subRemoveCommand is "ds sub remove".
type subRemoveCommand struct {
	subscription
	Streams []string `arg:"" name:"path" help:"Paths of streams."`
}

// Help is the text below the summary.
func (subRemoveCommand) Help() string {
	return `Takes explicit links away. A stream that the pattern matches stays linked by it.

Example:

    ds sub remove mail users/ann`
}

// Run takes links away.
func (c *subRemoveCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.open(env)
	if err != nil {
		return err
	}
	for _, path := range c.Streams {
		if err := s.Remove(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// subClaimCommand is "ds sub claim".
type subClaimCommand struct {
	subscription
	Worker string `default:"ds" placeholder:"${default}" help:"Name of the worker."`
	JSON   bool   `name:"json" help:"Write the claim as a JSON object, which ds sub ack and release take. It has the claim's token: keep it to yourself."`
}

// Help is the text below the summary.
func (subClaimCommand) Help() string {
	return `Takes a subscription that has work, for the time of its lease, and shows what is to be done. If somebody
else holds it, or there is nothing to do, the exit code is 4.

Example:

    ds sub claim jobs --json > claim.json
    # ... read the streams from their acked_offset on ...
    ds sub ack jobs --claim claim.json --all --done`
}

// Run claims.
func (c *subClaimCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.open(env)
	if err != nil {
		return err
	}
	claim, err := s.Claim(ctx, c.Worker)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, claim)
	}
	rows := [][2]string{{"wake", claim.WakeID}, {"lease", (time.Duration(claim.LeaseMS) * time.Millisecond).String()}}
	return printRows(env, append(rows, cursors(claim.Streams)...))
}

// held is the claim that ack and release are about.
type held struct {
	Claim string `required:"" placeholder:"FILE" help:"What ds sub claim --json has written; - for stdin."`
}

func (h *held) read(env *Env) (*client.Claim, error) {
	text, err := readFile(env, h.Claim)
	if err != nil {
		return nil, err
	}
	var claim client.Claim
	if json.Unmarshal(text, &claim) != nil || claim.WakeID == "" || claim.Token == "" {
		return nil, fmt.Errorf("%s is no claim as ds sub claim --json writes it", h.Claim)
	}
	return &claim, nil
}

// subAckCommand is "ds sub ack".
type subAckCommand struct {
	subscription
	held
	Ack  []string `placeholder:"PATH=OFFSET" help:"A stream and the offset up to which it has been dealt with."`
	All  bool     `help:"All streams of the claim have been dealt with, up to the tails that it names."`
	Done bool     `help:"Give the subscription back. Without it the lease begins anew."`
	JSON bool     `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (subAckCommand) Help() string {
	return `Reports what has been dealt with. A claim that somebody else holds by now is a conflict: exit code 4.

Examples:

    ds sub ack jobs --claim claim.json                                # only to keep the lease
    ds sub ack jobs --claim claim.json --ack jobs/7=0000000000000075_5f0c2a9be1d473ac
    ds sub ack jobs --claim claim.json --all --done`
}

// Run acks.
func (c *subAckCommand) Run(ctx context.Context, env *Env) error {
	claim, err := c.read(env)
	if err != nil {
		return err
	}
	var acks []client.Ack
	if c.All {
		for _, s := range claim.Streams {
			acks = append(acks, client.Ack{Stream: s.Path, Offset: s.Tail})
		}
	}
	for _, text := range c.Ack {
		i := strings.LastIndexByte(text, '=') // an offset has none
		if i <= 0 {
			return usageError{fmt.Errorf("--ack: %q: want path=offset", text)}
		}
		acks = append(acks, client.Ack{Stream: text[:i], Offset: client.Offset(text[i+1:])})
	}
	s, err := c.open(env)
	if err != nil {
		return err
	}
	more, err := s.Ack(ctx, claim, acks, c.Done)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(env.Stdout, map[string]any{"acks": len(acks), "done": c.Done, "next_wake": more})
	case more:
		_, err = fmt.Fprintln(env.Stdout, "there is more to do")
	}
	return err
}

// subReleaseCommand is "ds sub release".
type subReleaseCommand struct {
	subscription
	held
}

// Help is the text below the summary.
func (subReleaseCommand) Help() string {
	return `Gives a claim back; what it was about wakes another worker.

Example:

    ds sub release jobs --claim claim.json`
}

// Run releases.
func (c *subReleaseCommand) Run(ctx context.Context, env *Env) error {
	claim, err := c.read(env)
	if err != nil {
		return err
	}
	s, err := c.open(env)
	if err != nil {
		return err
	}
	return s.Release(ctx, claim)
}

// subKeysCommand is "ds sub keys".
type subKeysCommand struct{ remote }

// Help is the text below the summary.
func (subKeysCommand) Help() string {
	return `Gets the JWK Set of a server. ds keys show reads the one of a data directory.

Example:

    ds sub keys`
}

// Run gets.
func (c *subKeysCommand) Run(ctx context.Context, env *Env) error {
	remote, err := c.client(env, c.URL, false)
	if err != nil {
		return err
	}
	keys, err := remote.Keys(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n", strings.TrimSpace(string(keys)))
	return err
}
