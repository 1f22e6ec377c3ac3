-- Hand out what may start now.
-- KEYS as in graph_shared
-- returns {state, deadline, resumes, headers, {{node, attempt, specification} …}}, or nothing without a record
return state and hand_out({})
