package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Why a token is not taken, in the order in which it is looked at.
var (
	ErrTokenMalformed = errors.New("the token is not one of this server's making")
	ErrTokenSignature = errors.New("the token's signature is wrong")
	ErrTokenScope     = errors.New("the token is for something else")
	ErrTokenStale     = errors.New("the token is of another wake")
	ErrTokenExpired   = errors.New("the token has expired")
)

// TokenKind says what a token is good for.
type TokenKind string

// The two kinds of tokens.
const (
	CallbackToken TokenKind = "callback" // given to a webhook (§7.1)
	ClaimToken    TokenKind = "claim"    // given to a worker (§7.2)
)

// Token is what a token says: its holder may speak for one wake of one subscription.
type Token struct {
	Kind         TokenKind `json:"use"`
	Subscription string    `json:"sub"`
	Incarnation  uint64    `json:"inc"` // tells a subscription from a later one of the same id
	Generation   uint64    `json:"gen"`
	WakeID       string    `json:"wake"`
	Expires      int64     `json:"exp"` // Unix seconds; from then on it is not taken
}

const (
	// tokenHead is the one header there is. It is compared, never interpreted: a
	// token cannot choose how it is verified.
	tokenHead = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." // {"alg":"HS256","typ":"JWT"}
	maxToken  = 16 << 10
)

// Mint makes a token in the compact form of a JSON Web Token. Ids should be below
// 1 KiB, or the token may be too long to be taken back.
func (k *Keys) Mint(t Token, now time.Time) (string, error) {
	set, err := k.current(now)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	signed := tokenHead + encode64(claims)
	return signed + "." + encode64(tokenSum(set.secret, signed)), nil
}

func tokenSum(secret []byte, signed string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(signed))
	return h.Sum(nil)
}

// CheckToken verifies a token and gives what it says. Whose it is must be decided
// with [Token.Authorizes].
func (k *Keys) CheckToken(text string, now time.Time) (Token, error) {
	set, err := k.current(now)
	if err != nil {
		return Token{}, err
	}
	dot := strings.LastIndexByte(text, '.')
	if len(text) > maxToken || !strings.HasPrefix(text, tokenHead) || dot < len(tokenHead) {
		return Token{}, ErrTokenMalformed
	}
	sum, err := decode64(text[dot+1:])
	claims, err2 := decode64(text[len(tokenHead):dot])
	if err != nil || err2 != nil || len(sum) != sha256.Size {
		return Token{}, ErrTokenMalformed
	}
	if !set.made(text[:dot], sum, now) {
		return Token{}, ErrTokenSignature
	}
	var t Token
	if err := json.Unmarshal(claims, &t); err != nil {
		return Token{}, ErrTokenMalformed // signed by us in another version
	}
	return t, nil
}

// made tells whether sum is by one of the set's secrets. It takes the same time
// whatever the sum is.
func (s *keySet) made(signed string, sum []byte, now time.Time) bool {
	ok := hmac.Equal(sum, tokenSum(s.secret, signed))
	for _, old := range s.oldSecrets(now) {
		ok = hmac.Equal(sum, tokenSum(old.secret, signed)) || ok
	}
	return ok
}

// Authorizes tells whether the holder of a verified token may speak for the wake
// that want describes, nil if so. want.Expires does not count. A token of an earlier
// wake is stale, even if it has also expired.
func (t Token) Authorizes(want Token, now time.Time) error {
	switch {
	case t.Kind != want.Kind || t.Subscription != want.Subscription || t.Incarnation != want.Incarnation:
		return ErrTokenScope
	case t.Generation != want.Generation || t.WakeID != want.WakeID:
		return ErrTokenStale
	case now.Unix() >= t.Expires:
		return ErrTokenExpired
	}
	return nil
}
