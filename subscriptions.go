package durablestreams

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/control"
	"durablestreams/internal/protocol"
	"durablestreams/internal/webhook"
	"durablestreams/internal/wire"
	"durablestreams/store"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Bounds of webhook calls that are under way.
const (
	maxCalls        = 256
	maxCallsPerHost = 8
)

// keyFile is the place of the webhook keys in a data directory.
func keyFile(fs vfs.FS, dir string) string { return fs.PathJoin(dir, "keys", "webhook") }

// subscriptions is the part of a server that wakes workers (§6, §7).
type subscriptions struct {
	manager *subscription.Manager
	keys    *webhook.Keys
	sender  *webhook.Sender
}

// openSubscriptions gives subscriptions whose manager is to be the engine's
// observer before it is started.
func openSubscriptions(fs vfs.FS, dir string, o *Options) (*subscriptions, error) {
	policy, err := o.webhookPolicy()
	if err != nil {
		return nil, err
	}
	keys, err := webhook.OpenKeys(fs, keyFile(fs, dir), o.Logger)
	if err != nil {
		return nil, err
	}
	log := protocol.LimitLog(o.Logger) // clients choose receivers, and so what fails
	return &subscriptions{
		manager: subscription.New(&subscription.Options{MaxSubscriptions: o.MaxSubscriptions, MaxCalls: maxCalls, MaxCallsPerTarget: maxCallsPerHost, Logger: log}),
		keys:    keys,
		// The manager ends each call with its lease: a receiver that works while it
		// answers is not called a second time before.
		sender: webhook.NewSender(keys, &webhook.Options{Policy: policy, PerHost: maxCallsPerHost, Concurrent: maxCalls,
			Timeout: subscription.MaxLease, HeaderTimeout: subscription.MaxLease}),
	}, nil
}

// start lets the subscriptions go on where they were when the engine was closed.
func (s *subscriptions) start(e *store.Engine) error {
	return s.manager.Start(subscription.Ports{Engine: e, WakeStreams: wakeStreams{e}, Webhooks: receivers{s.sender}, Tokens: tokens{s.keys}})
}

// api is what clients see of them.
func (s *subscriptions) api() *control.API { return control.New(s.manager, publicKeys{s.keys}) }

// close lets webhook calls end until ctx does, and cuts them then.
func (s *subscriptions) close(ctx context.Context) {
	s.manager.Close(ctx)
	s.sender.Close()
}

// wakeStreams appends events as a client would.
type wakeStreams struct{ engine *store.Engine }

func (w wakeStreams) AppendEvent(path stream.Path, event []byte, producer stream.Producer, done func(error)) {
	data, _, err := wire.FrameJSON(nil, event)
	if err != nil {
		done(err)
		return
	}
	w.engine.Apply(&stream.Append{Path: path, ContentType: "application/json", HasBody: true, Data: data, Producer: &producer}, appended(done))
}

// appended is a completion of which only the error counts.
type appended func(error)

func (f appended) Complete(_ stream.Result, err error) { f(err) }

// receivers deliver webhooks.
type receivers struct{ sender *webhook.Sender }

func (r receivers) CheckURL(url string) error { return r.sender.CheckURL(url) }

func (r receivers) Deliver(ctx context.Context, url string, body []byte) (done bool, err error) {
	outcome := r.sender.Deliver(ctx, url, body)
	if !outcome.OK {
		return false, errors.New(outcome.Reason)
	}
	return outcome.Done, nil
}

// tokens puts what a wake's holder may say into the words of package webhook.
type tokens struct{ keys *webhook.Keys }

// tokenKinds are the kinds of tokens by type of subscription.
var tokenKinds = map[subscription.Type]webhook.TokenKind{
	subscription.Webhook:  webhook.CallbackToken,
	subscription.PullWake: webhook.ClaimToken,
}

func (t tokens) Mint(token subscription.Token) (string, error) {
	return t.keys.Mint(webhook.Token{Kind: tokenKinds[token.Type], Subscription: token.ID, Incarnation: token.Own,
		Generation: token.Generation, WakeID: token.WakeID, Expires: token.Expires.Unix()}, time.Now())
}

func (t tokens) Verify(text string) (subscription.Token, error) {
	said, err := t.keys.CheckToken(text, time.Now())
	if err != nil {
		return subscription.Token{}, err
	}
	token := subscription.Token{ID: said.Subscription, Own: said.Incarnation, Generation: said.Generation, WakeID: said.WakeID,
		Expires: time.Unix(said.Expires, 0)}
	for typ, kind := range tokenKinds {
		if kind == said.Kind {
			token.Type = typ
		}
	}
	return token, nil
}

// publicKeys is what receivers may know of the keys.
type publicKeys struct{ keys *webhook.Keys }

func (p publicKeys) KeyID() (string, error) { return p.keys.KeyID(time.Now()) }
func (p publicKeys) JWKS() ([]byte, error)  { return p.keys.JWKS(time.Now()) }
