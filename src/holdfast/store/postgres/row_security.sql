-- Whoever is not the owner of the tables sees the rows of one tenant only: the one that the setting
-- holdfast.owner names on the connection. Without it, none. Grant SELECT to such a role.
ALTER TABLE {s}.conversations ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.conversations USING (owner = current_setting('holdfast.owner', true));
ALTER TABLE {s}.profiles ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.profiles
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.events
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.calls ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.calls
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.records ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.records
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.tags ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.tags
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.tokens ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.tokens
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
ALTER TABLE {s}.texts ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON {s}.texts
    USING (EXISTS (SELECT FROM {s}.conversations c WHERE c.pk = conversation));
