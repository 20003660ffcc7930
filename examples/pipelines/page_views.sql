-- Views of pages by the minute, in SQL: tidelog pipeline run examples/pipelines/page_views.sql
CREATE STREAM clicks (user STRING, page STRING, at TIMESTAMP)
  WITH (topic = 'clicks', timestamp = 'at', watermark = '5 minutes', on_error = 'skip');

CREATE TABLE page_views WITH (topic = 'page-views') AS
  SELECT page, window(at, '1 minute').start AS minute, count(*) AS views
  FROM clicks
  GROUP BY page, window(at, '1 minute')
  EMIT CHANGES;
