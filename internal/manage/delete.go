package manage

import (
	"net/http"
	"net/url"
	"slices"

	"durablestreams/stream"
)

// Deletion is what one step of a deletion by prefix has done.
type Deletion struct {
	Streams int    `json:"streams"`        // deleted
	Bytes   uint64 `json:"bytes"`          // of theirs
	Next    string `json:"next,omitempty"` // for after; absent at the end
}

// defaultStep is how many streams are looked at in one step of a deletion.
const defaultStep = 1000

// deletionTakes are the parameters of a deletion. Others are refused: one that is
// misspelt would make it a larger one.
var deletionTakes = []string{"prefix", "after", "limit", "all"}

// delete takes one step of a deletion.
func (a *api) delete(r *http.Request) (any, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse("the query is malformed")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(deletionTakes, name):
			return nil, refuse("a deletion takes prefix, after, limit and all, and nothing else")
		case len(values) > 1:
			return nil, refuse(name + " is given more than once")
		}
	}
	prefix, all := q.Get("prefix"), q.Get("all")
	switch {
	case !q.Has("prefix"):
		return nil, refuse("a deletion needs a prefix: the start of the paths of what is to go")
	case q.Has("all") && all != "true":
		return nil, refuse("all is true or left out")
	case prefix == "" && all == "":
		return nil, refuse("an empty prefix is every stream of the server; all=true confirms that")
	}
	limit, err := limitOf(q, defaultStep)
	if err != nil {
		return nil, err
	}
	done, err := a.server.DeleteStep(r.Context(), prefix, stream.Path(q.Get("after")), limit)
	if err != nil {
		return nil, err
	}
	return Deletion{Streams: done.Streams, Bytes: done.Bytes, Next: string(done.Next)}, nil
}
